"""Stands in for Hugging Face's datasets: texts without meaning, without end."""

TEXT = "a program reads tokens and no number of it depends on which ones they are "


class Dataset:
    def __iter__(self):
        while True:
            yield {"text": 200 * TEXT}


def load_dataset(*_, **__):
    return Dataset()
