// Package lake tests the Parquet files of rt-site lake with DuckDB and Spark, and with a writer that is killed.
package lake
