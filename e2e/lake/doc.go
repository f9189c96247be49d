// Package lake tests the Iceberg tables of rt-lake with DuckDB, PyIceberg and Spark, and with a writer that is killed.
package lake
