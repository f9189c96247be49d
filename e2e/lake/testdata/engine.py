"""Opens a lake with DuckDB, with PyIceberg (and DuckDB for the queries), or with Spark. A lake is a directory."""
import os

TABLES = "runs", "samples"


class DuckDB:
    def __init__(self, lake):
        import duckdb
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")
        self.open(lake)

    def open(self, lake):
        from duckdb_extensions import import_extension
        for extension in "avro", "iceberg":
            import_extension(extension, con=self.db)
            self.db.execute(f"LOAD {extension}")
        for table in TABLES:
            self.db.execute(f"CREATE VIEW {table} AS SELECT * FROM iceberg_scan('{lake}/{table}', version_name_format = '%s%s.metadata.json')")

    def rows(self, query):
        cursor = self.db.execute(query)
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]


class PyIceberg(DuckDB):
    def open(self, lake):
        from pyiceberg.table import StaticTable
        for table in TABLES:
            self.db.register(table, StaticTable.from_metadata(f"{lake}/{table}").scan().to_arrow())


class Spark:
    def __init__(self, lake):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        from pyspark.sql import SparkSession
        self.spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
                      .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
                      .config("spark.jars.packages", os.environ.get("RT_ICEBERG", "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1"))
                      .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
                      .config("spark.log.level", "ERROR").getOrCreate())
        for table in TABLES:
            with open(f"{lake}/{table}/metadata/version-hint.text") as hint:
                path = f"{lake}/{table}/metadata/{hint.read()}.metadata.json"
            self.spark.read.format("iceberg").load(path).createOrReplaceTempView(table)

    def rows(self, query):
        return [row.asDict(recursive=True) for row in self.spark.sql(query).collect()]


def open_lake(engine, lake):
    return {"duckdb": DuckDB, "pyiceberg": PyIceberg, "spark": Spark}[engine](lake)
