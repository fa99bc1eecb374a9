"""What the frontend raises."""


class Unsupported(Exception):
    """What graph text cannot say (op, dtype, layout, size): the framework runs it, the report gives this reason."""
