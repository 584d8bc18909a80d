"""Print a state, a report or a list: text tables and charts that several commands share.

`text_tables.py` prints scores and posteriors, `evaluation_tables.py` the screens of `evaluate`,
`class_table.py` precision and recall by class,
`state_diff.py` what was learned between two journal records, `snapshot_list.py` the kept snapshots,
`report_charts.py` the charts of the live page and of an evaluation. Nothing here changes a state.
"""
