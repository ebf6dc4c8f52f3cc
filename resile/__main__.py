"""``python -m resile`` is the ``resile`` command."""

from resile.cli.main import main

main()
