"""How good the judges are: agreement, bias, ranking."""
