"""Build those of Resile's images that changed, and push them to the cluster's registry."""

from pathlib import Path

import click

from devcluster.errors import ClusterError
from devcluster.images.build import Workshop
from devcluster.layout import REGISTRY_ADDRESS, default_cache
from devcluster.progress import Progress

CHECKOUT = Path(__file__).resolve().parents[2]


@click.command(help=__doc__)
@click.option("--registry", default=REGISTRY_ADDRESS, show_default=True, metavar="HOST:PORT")
@click.option(
    "--archive",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write docker-archives into FOLDER instead of pushing.",
)
@click.option(
    "--fresh", is_flag=True, help="Rebuild everything, with the newest versions of packages."
)
def main(registry: str, archive: Path | None, fresh: bool) -> None:
    progress = Progress(click.echo)
    workshop = Workshop(CHECKOUT, default_cache() / "images", say=progress.reached)
    try:
        if fresh:
            workshop.forget()
        if archive is None:
            workshop.push(registry)
        else:
            workshop.archive(archive.absolute(), registry)
    except ClusterError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
