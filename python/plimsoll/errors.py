"""Exceptions of plimsoll. An exception of the user's own model or loss is raised as it is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from plimsoll.planning import Plan


class UserError(ValueError):
    """Something in the call is wrong: an option, the model, the batch, a file. The text says what to do."""


class PlanDoesNotFit(UserError):
    """The budget is too small.

    Attributes:
        minimum: bytes of the smallest budget that fits, over every choice that was left open; None: it is not known.
        plan: the plan with that need; `plan.advice()` plans changes that fit. None: not even the planning fits.
    """

    def __init__(self, text: str, minimum: int | None = None, plan: Plan | None = None) -> None:
        super().__init__(text)
        self.minimum = minimum
        self.plan = plan

    def __reduce__(self) -> tuple[type[PlanDoesNotFit], tuple[str, int | None]]:
        """Passes the exception to another process, without the plan."""
        return type(self), (str(self), self.minimum)


class RunError(RuntimeError):
    """A training could not go on: a file, a disk, memory that another program took."""


class InternalError(RuntimeError):
    """A bug of plimsoll."""
