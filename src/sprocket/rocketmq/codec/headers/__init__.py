"""Headers of requests and answers, each declared once; both directions follow from it.

`ext` turns a declared header into texts by name and back, `binary_header` is their short form.
"""
