"""Figures of a report as Vega-Lite specifications.

A specification contains its data, needs no network and can be restyled in any Vega-Lite editor. `rendering` turns it
into SVG, PNG and PDF. Names of models and benchmarks are untrusted: they are data, never part of a field name or an
expression.
"""
