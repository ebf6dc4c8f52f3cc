"""Fail under torch's own decorator, which writes the error file of torchrun's contract."""

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main() -> None:
    raise ValueError("recorded and reported")


if __name__ == "__main__":
    main()
