"""Readers: records by number from files, arrays, classes and functions."""

from resile.train.data.readers.base import ChainReader, Reader
from resile.train.data.readers.columnar import ArrowReader, ParquetReader
from resile.train.data.readers.csvfile import CSVReader
from resile.train.data.readers.factory import open_dataset
from resile.train.data.readers.lines import JSONLinesReader, TextReader
from resile.train.data.readers.memory import ArrayReader, CallableReader, SequenceReader
from resile.train.data.readers.recordio import Compression, RecordIOReader, RecordIOWriter

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
