"""The sentences of a model card that are the same for every run."""

NOTEBOOKS = (
    "\n\nTraining goes on, and you can join it: [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
    "(https://colab.research.google.com/#fileId={quoted}) "
    "[![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)]"
    "(https://kaggle.com/kernels/welcome?src={raw})"
)

SNIPPET = """\
## How to use it

Filling gaps is what it has learned:

```python
from transformers import pipeline

fill = pipeline("fill-mask", model="{repo}")
for guess in fill({text}):
    print(f"{{guess['score']:.3f}} {{guess['token_str']}}")
```

Most often it is the beginning of something else. For your own task:

```python
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{repo}")
model = AutoModelForSequenceClassification.from_pretrained("{repo}", num_labels=2)
```

or, with Sahaj, `sahaj finetune ner --model {repo} --train train.conll ...`
"""

TRAINING = """\
Two tasks, as ALBERT has them: masked tokens, and whether two segments of a text are in their order. Volunteers'
computers each compute gradients on samples of their own; when all together have computed a batch, the mean of the
gradients is taken between them and everybody takes the same step."""

ALGORITHMS = """\
ALBERT: Lan et al., 2020. LAMB: You et al., 2020. Averaging: DeDLOC, Diskin et al., 2021, with
[hivemind](https://github.com/learning-at-home/hivemind). `run.yaml` in this repository has every setting, and
`trainer_state.json` the figures of this checkpoint; `sha256sum --check SHA256SUMS` checks a copy. `optimizer.pt`
is the optimizer's state: it is for going on with the training, and nobody else needs it."""

CARBON_ASSUMPTIONS = """\
Hours are those in which a device was heard of. Operations: six for each token and each weight that it meets, a
shared layer counted as often as it is applied (Kaplan et al., 2020). Electricity: what makers say that a board
draws at work, {gpu} W for a GPU whose board is not known to the program, {processor} W for a processor, and {rest} W
for the computer around it. Carbon: {carbon} kg for a kilowatt-hour,
the world's mean in 2023 (Ember, 2024). The coordinator, the network and the making of the computers are not in it."""

LIMITS = """\
## What it is not

It has read text that nobody has checked line by line, and repeats what is in it, prejudices included. It answers no
questions and knows no facts: look at what it does on your own task, and on the people whom that concerns, before you
rely on it."""

CITATION = """\
## Citation

```bibtex
@misc{{{key}_{year},
  title = {{{title}: a language model pretrained by volunteers}},
  author = {{{{The contributors of {title}}}}},
  year = {{{year}}},
  url = {{{url}}}
}}

@inproceedings{{diskin2021dedloc,
  title = {{Distributed Deep Learning in Open Collaborations}},
  author = {{Diskin, Michael and Bukhtiyarov, Alexey and Ryabinin, Max and Saulnier, Lucile and Lhoest, Quentin and
            Sinitsin, Anton and Popov, Dmitry and Pyrkin, Dmitriy and Kashirin, Maxim and Borzunov, Alexander and
            Villanova del Moral, Albert and Mazur, Denis and Kobelev, Ilia and Jernite, Yacine and Wolf, Thomas and
            Pekhimenko, Gennady}},
  booktitle = {{Advances in Neural Information Processing Systems}},
  year = {{2021}}
}}
```"""
