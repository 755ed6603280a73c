"""Many recordings: a catalog of them, workers for them, a metric over their time.

`trees`: folders and addresses; `catalog`, `rows`: one Parquet file about all; `selection`,
`dataset`: tables of those chosen, also in hive layout; `cluster`, `scheduler`: dask workers, ours
or another's; `reports`: a report of each; `series`: a metric over campaigns.
"""
