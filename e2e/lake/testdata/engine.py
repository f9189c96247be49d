"""Opens a lake with DuckDB or Spark."""
import os


class DuckDB:
    def __init__(self, lake):
        import duckdb
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")
        for table in "runs", "samples":
            self.db.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{lake}/{table}/**/*.parquet', hive_partitioning = true, union_by_name = true)")

    def rows(self, query):
        cursor = self.db.execute(query)
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]


class Spark:
    def __init__(self, lake):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        from pyspark.sql import SparkSession
        self.spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
                      .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
                      .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
                      .config("spark.log.level", "ERROR").getOrCreate())
        for table in "runs", "samples":
            self.spark.read.option("mergeSchema", "true").parquet(f"{lake}/{table}").createOrReplaceTempView(table)

    def rows(self, query):
        return [row.asDict(recursive=True) for row in self.spark.sql(query).collect()]


def open_lake(engine, lake):
    return {"duckdb": DuckDB, "spark": Spark}[engine](lake)
