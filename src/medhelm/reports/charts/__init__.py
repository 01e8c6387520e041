"""Charts of the site and of reports: SVG written in Python, without JavaScript and without another library.

A chart is a pure function from numbers to `chart.Chart`, a picture with its table, or to a drawing. Colors are classes
that `static/charts.css` of the site defines for light and dark, and presentation attributes with the light colors, so
that an SVG file needs no style sheet.
"""
