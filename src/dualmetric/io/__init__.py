"""Files: metrics, exports for other programs, and rows with their labels."""

from .parquet import ParquetRows, open_parquet
from .rowfiles import RowFile, read_rows, write_rows

__all__ = ["ParquetRows", "RowFile", "open_parquet", "read_rows", "write_rows"]
