"""Do tests see a fault? One is planted at a time, in the code that must not lose a message.

`python -m tests.mutants` (`make mutants`) chooses some mutants of a few modules by a seed, runs for
each the tests of the rooms that run its function, until the first one fails, and says which mutants
all tests have passed on. `mutations` makes mutants, `running` runs tests on them, `report` tells.
"""
