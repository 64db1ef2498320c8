"""What the notebook of a run tells, in the run's language."""

from swarm.language import Language

FAQ = "[FAQ](https://research.google.com/colaboratory/faq.html)"


def welcome(language: Language, run: str, *, has_link: bool) -> str:
    """The text above the cell.

    Args:
        run: its name, as Markdown.
        has_link: the link is in the cell, and need not be asked for.
    """
    _ = language.text
    asked_link = _(
        "Write the link that the organizer has sent you into the field *URL* (on Kaggle: between the quotes of `URL`), "
        "or type it when the cell asks."
    )
    press = _(
        "Run the cell below: press ▶ at its left, or in the bar above. It installs the program (a minute or two), asks "
        "for a Hugging Face token if the run needs one, and begins."
    )
    first = _(
        "Choose a GPU if you can: in Colab *Runtime → Change runtime type*, in Kaggle *Settings → Accelerator*. "
        "Without one it works, too, only slower. On Kaggle also switch on *Settings → Turn on internet*."
    )
    return "\n\n".join(
        [
            "# " + _("Join {run}").format(run=run),
            _(
                "Many people train one language model together here, each with whatever computer they have: this "
                "notebook lends them the computer that it runs on, from Google, from Kaggle or your own. You need no "
                "knowledge of training."
            ),
            _(
                "The provider decides what such a computer may be used for. Colab's {faq} has been quoted as "
                "disallowing *running distributed computing workers* for those without a paid balance of compute "
                "units, and may end such a session or restrict an account: read it before you run the cell. Kaggle "
                "gives each account a quota of hours of GPU a week, and this uses it up."
            ).format(faq=FAQ),
            f"1. {first}\n2. {press if has_link else f'{asked_link} {press}'}",
            _(
                "A token [without any permission](https://huggingface.co/settings/tokens) is enough: *Create new "
                "token*, *Fine-grained*, no box ticked. What you type is neither shown nor saved. Instead of typing it "
                "you may keep it among the secrets of Colab (the key at the left) or Kaggle (*Add-ons → Secrets*), "
                "with the name `HF_TOKEN`."
            ),
        ]
    )


def meanwhile(language: Language) -> str:
    """The text below the cell."""
    _ = language.text
    items = [
        _(
            "The program fetches text from the Internet, hides some of its words, and lets the model guess them. A "
            "*gradient* says how the model must change to guess better. The gradients of all people together make one "
            "*global step*, after which everybody's model is a little better."
        ),
        _(
            "**Loss** says how bad the guesses are: it falls as the model learns. **You** shows what you have "
            "contributed, **Swarm** what everybody has contributed together."
        ),
        _(
            "**To stop**, press ■ where ▶ was (in Colab also *Runtime → Interrupt execution*). What you have "
            "contributed still counts. Run the cell again to go on."
        ),
        _(
            "If the page loses its connection, the work goes on for as long as the machine is yours. If the machine "
            "was taken away, run the cell again."
        ),
    ]
    warning = _(
        "The cell runs the program that the run's organizer offers, and that program can see everything that this "
        "notebook can: use it only for runs of people you trust. Others see your name, the kind of device and what it "
        "has computed. If the public model card is to name contributors, the cell says so before training begins: stop "
        "it then, and tell the organizer if you do not want to be named."
    )
    listed = "\n".join(f"- {item}" for item in items)
    heading = _("What you see then")
    return f"## {heading}\n\n{listed}\n\n{warning}"
