"""The figures of a report as Vega-Lite specifications: numbers in, plain dictionaries out.

A specification holds its data, needs no network and can be restyled in any Vega-Lite editor. `rendering` turns it into
SVG, PNG and PDF. Names of models and benchmarks come from files of others: they are only ever data, never part of a
field name or an expression.
"""
