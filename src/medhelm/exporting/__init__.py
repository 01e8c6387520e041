"""What a store holds, for others: HELM's files, plain tables, and a page for people who decide."""

from medhelm.exporting.card import export_card
from medhelm.exporting.helm import export_helm
from medhelm.exporting.selection import Exported, Wanted
from medhelm.exporting.tables import export_tables

__all__ = ["Exported", "Wanted", "export_card", "export_helm", "export_tables"]
