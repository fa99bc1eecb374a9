"""What the frontend raises."""


class Unsupported(Exception):
    """An op, dtype, layout or size that graph text cannot say; the framework runs it, and the report gives this reason."""
