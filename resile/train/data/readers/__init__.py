"""Readers: records by number from files, arrays, classes and functions."""

from resile.train.data.readers.base import Reader
from resile.train.data.readers.chain import ChainReader
from resile.train.data.readers.columnar import ArrowReader, ParquetReader
from resile.train.data.readers.csvfile import CSVReader
from resile.train.data.readers.lines import JSONLinesReader, TextReader
from resile.train.data.readers.opening import open_dataset
from resile.train.data.readers.recordio import Compression, RecordIOReader, RecordIOWriter
from resile.train.data.readers.wrapping import ArrayReader, CallableReader, SequenceReader

__all__ = [
    "ArrayReader",
    "ArrowReader",
    "CSVReader",
    "CallableReader",
    "ChainReader",
    "Compression",
    "JSONLinesReader",
    "ParquetReader",
    "Reader",
    "RecordIOReader",
    "RecordIOWriter",
    "SequenceReader",
    "TextReader",
    "open_dataset",
]
