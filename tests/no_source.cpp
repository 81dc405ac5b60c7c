// A program whose sources all stand in libraries needs one of its own.
