"""The command line of `sahaj service`."""

from typing import Annotated, Any

import typer

from app.commands import joining
from app.startup import set_verbosity

service = typer.Typer(help="Train as a service, which starts by itself.", no_args_is_help=True)
RunAndOptionsArgument = Annotated[
    str,
    typer.Argument(
        metavar="LINK [OPTIONS OF JOIN]",
        help="the run's link; then options of `sahaj join`, such as --when night",
        show_default=False,
    ),
]
SomeRunArgument = Annotated[
    str | None,
    typer.Argument(metavar="LINK", help="the run's link; all services of this machine if absent", show_default=False),
]


@service.command(context_settings={"allow_extra_args": True, "allow_interspersed_args": False})
def install(context: typer.Context, url: RunAndOptionsArgument) -> None:
    """Train in a run from now on: after each login, and again after a crash."""
    set_verbosity(verbose=False)
    options = _options_of_join(url, context.args)
    from app.join.problems import referring_to_doctor
    from app.service.services import install as install_service

    with referring_to_doctor(url):
        install_service(url, context.args, options, typer.echo)


@service.command()
def status(url: SomeRunArgument = None) -> None:
    """Tell whether services run, since when, and where their logs are."""
    set_verbosity(verbose=False)
    from app.service.services import status as tell

    tell(url, typer.echo)


@service.command()
def pause(url: SomeRunArgument = None) -> None:
    """Pause within two seconds, until `resume`."""
    set_verbosity(verbose=False)
    from app.service.services import pause as have_pause

    have_pause(url, typer.echo)


@service.command()
def resume(url: SomeRunArgument = None) -> None:
    """Go on after `pause`."""
    set_verbosity(verbose=False)
    from app.service.services import resume as go_on

    go_on(url, typer.echo)


@service.command()
def remove(url: SomeRunArgument = None) -> None:
    """Stop services for good; what the peer keeps stays, for `sahaj leave` to remove."""
    set_verbosity(verbose=False)
    from app.service.services import remove as remove_service

    remove_service(url, typer.echo)


def _options_of_join(url: str, arguments: list[str]) -> dict[str, Any]:
    """What `sahaj join` makes of them; it explains a mistake itself."""
    join = typer.Typer(add_completion=False)
    join.command()(joining.join)
    return typer.main.get_command(join).make_context("sahaj join", [url, *arguments]).params
