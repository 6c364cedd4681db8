"""What only RabbitMQ's broker raises, as a branch of the tree in `base.errors`.

SprocketError
└── RequestRefused          a correct request that the broker declines, with AMQP's reply code
"""

from sprocket.base.errors import SprocketError


class RequestRefused(SprocketError):
    """A correct request that the broker declines, with a reply code of AMQP.

    `remark` is one sentence for the person who reads it.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{remark} (code {code})")
        self.code = code
        self.remark = remark
