"""RecordIO, ElasticDL's format of record files: reader and writer."""

from resile.train.data.readers.recordio.chunk import Compression
from resile.train.data.readers.recordio.file import RecordIOReader, RecordIOWriter

__all__ = ["Compression", "RecordIOReader", "RecordIOWriter"]
