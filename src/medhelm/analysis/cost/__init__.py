"""Prices, bills and cost forecasts."""
