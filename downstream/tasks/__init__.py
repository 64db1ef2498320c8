"""Tasks, by the names that the command line gives them: named entities and classification."""

from downstream.tasks.classify import Classification
from downstream.tasks.ner import NamedEntities
from downstream.tasks.task import Task

TASKS: dict[str, type[Task]] = {task.name: task for task in (NamedEntities, Classification)}

__all__ = ["TASKS", "Classification", "NamedEntities", "Task"]
