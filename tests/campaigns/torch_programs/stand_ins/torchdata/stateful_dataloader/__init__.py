"""Stands in for torchdata: its loader without a state that could be saved."""

from torch.utils.data import DataLoader


class StatefulDataLoader(DataLoader):
    def state_dict(self):
        return {}

    def load_state_dict(self, _):
        pass
