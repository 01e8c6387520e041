"""From stores, or published results, to a report: the tables and figures of the MedHELM paper in one folder.

gathering   what a report is about: the leaderboard, what it cost, what clinicians said, which days
composing   tables and figures, and the reasons for those that cannot be made
making      everything as files, written whole (see `io.output_folder`)
"""
