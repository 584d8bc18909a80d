"""A recount of a model for each tenant: what an event teaches is counted for its own tenant alone."""

from __future__ import annotations

from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.verification.recount.event_recount import LabelChange, Recount, RecountPlan, Values, as_text

_NOBODY = ""  # whose events name no tenant, or one too many


class TenantRecount(Recount):
    """Recount for each tenant, in order of first occurrence, and of the shared model if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.tenants: dict[str, Recount] = {}

    @classmethod
    def for_model(cls, model: StreamModel) -> Recount:
        """Return an empty recount for this kind of model."""
        return cls() if isinstance(model, TenantModels) else Recount()

    def teach(self, x: Values, change: LabelChange) -> None:
        """Count an event, and what it has for its own tenant."""
        plan, counted = change.plan, self.counted(x, change)
        name = self._tenant(x, plan)
        if (own := self.tenants.get(name)) is None:
            own = self.tenants[name] = Recount()
            own.sources = plan.sources
        own.teach(counted, change._replace(plan=plan.own or plan))
        if plan.shares:
            super().teach(x, change)
        else:
            self.count_event(change)

    def _tenant(self, x: Values, plan: RecountPlan) -> str:
        """Return the tenant whose model learns an event; tenants above the limit have none."""
        value = None if plan.entity is None else x.get(plan.entity)
        name = _NOBODY if value is None else as_text(value)
        has_place = len(self.tenants) - (_NOBODY in self.tenants) < plan.tenants
        return name if name in self.tenants or has_place else _NOBODY
