"""Handle many recordings: a catalog, workers, and metrics over time.

`trees`: folders and addresses; `catalog`, `rows`: one Parquet file about all recordings;
`selection`, `dataset`: tables of chosen recordings, also in hive layout; `cluster`, `scheduler`:
workers of ours or of a dask cluster; `reports`: reports of each; `series`: metrics over campaigns.
"""
