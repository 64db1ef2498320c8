"""The tasks by the names that the command line gives them."""

from downstream.classify import Classification
from downstream.ner import NamedEntities
from downstream.task import Task

TASKS: dict[str, type[Task]] = {task.name: task for task in (NamedEntities, Classification)}
