"""torch.cuda on a CPU build, for the virtual device. install() must run before a script does."""

import contextlib
import types

import torch
import torch._subclasses.fake_tensor

from shardsim.torch.facts import Unknown


# Scripts that see a GPU ask for it. PyTorch 2.6 is built with this one, if nothing else is said.
CUDA_VERSION = "12.4"


def make_stream(native):
    before = []  # Streams in use around the innermost `with`.

    class Stream(torch.Stream):
        """A stream of the virtual device."""

        def __new__(cls, device=None, priority=0, stream_id=None, **_):
            if stream_id is None:
                stream_id = native.new_stream()
            return super().__new__(cls, stream_id=stream_id, device_index=0, device_type=1)

        def wait_event(self, event):
            event.wait(self)

        def wait_stream(self, stream):
            self.wait_event(stream.record_event())

        def record_event(self, event=None):
            event = event if event is not None else torch.cuda.Event()
            event.record(self)
            return event

        def synchronize(self):
            native.synchronize_stream(self.stream_id)

        def query(self):
            return True

        @property
        def cuda_stream(self):
            return self.stream_id

        def __enter__(self):
            before.append(native.set_current_stream(self.stream_id))
            return self

        def __exit__(self, *_):
            native.set_current_stream(before.pop())

    return Stream


def make_event(native):
    class Event:
        """An event of the virtual device. It has no times: they are not known before the replay."""

        def __init__(self, enable_timing=False, blocking=False, interprocess=False):
            self.number = native.new_event()

        def record(self, stream=None):
            native.record_event(self.number, number_of(stream, native))

        def wait(self, stream=None):
            native.wait_event(self.number, number_of(stream, native))

        def synchronize(self):
            native.synchronize_event(self.number)

        def query(self):
            return True

        def elapsed_time(self, _):
            return 1.0

    return Event


def make_ranges():
    """NVTX: ranges for a profiler, which are not recorded."""
    open_ranges = []

    def push(name):
        open_ranges.append(name)
        return len(open_ranges) - 1

    def pop():
        open_ranges.pop()
        return len(open_ranges)

    return types.SimpleNamespace(rangePushA=push, rangePop=pop, rangeStartA=lambda name: 0,
                                 rangeEnd=lambda number: None, markA=lambda name: None)


def number_of(stream, native):
    return native.current_stream() if stream is None else stream.stream_id


def install_streams(native):
    cuda = torch.cuda
    cuda.Stream = make_stream(native)
    cuda.Event = make_event(native)
    cuda.current_stream = lambda *_, **__: cuda.Stream(stream_id=native.current_stream())
    cuda.default_stream = lambda *_, **__: cuda.Stream(stream_id=0)
    cuda.stream = lambda stream: stream if stream is not None else contextlib.nullcontext()
    cuda.StreamContext = cuda.stream
    cuda.set_stream = lambda stream: native.set_current_stream(stream.stream_id)
    cuda.synchronize = lambda *_, **__: native.synchronize_device()
    torch.Tensor.record_stream = lambda self, stream: None


class Properties(types.SimpleNamespace):
    """Of the GPU. What the machine does not say, a program asks in vain."""

    def __getattr__(self, name):
        if name in ("major", "minor"):
            raise Unknown("compute capability")
        if name == "multi_processor_count":
            raise Unknown("multiprocessors")
        raise AttributeError(name)


def properties_of(facts):
    known = {"name": facts["name"], "total_memory": facts["memory_bytes"], "gcnArchName": "",
             "is_integrated": False}
    if facts["compute_capability"] is not None:
        known["major"], known["minor"] = facts["compute_capability"]
    if facts["multiprocessors"] is not None:
        known["multi_processor_count"] = facts["multiprocessors"]
    return Properties(**known)


def install_device(facts):
    cuda = torch.cuda
    properties = properties_of(facts)

    torch.version.cuda = CUDA_VERSION
    cuda._lazy_init = lambda: None
    cuda._is_in_bad_fork = lambda: False
    cuda._is_compiled = lambda: True
    torch._C._cuda_getCurrentRawStream = lambda index: 0  # Dynamo's, where CUDA is compiled in.
    cuda.is_available = lambda: True
    cuda.is_initialized = lambda: True
    cuda.device_count = lambda: facts["gpus_per_node"]
    cuda.current_device = lambda: 0  # All of a process is on one device, the first that it sees.
    cuda.set_device = lambda device: None
    cuda.device = lambda device: contextlib.nullcontext()
    cuda.get_device_properties = lambda *_, **__: properties
    cuda.get_device_capability = lambda *_, **__: (properties.major, properties.minor)
    cuda.get_device_name = lambda *_, **__: properties.name
    cuda.is_bf16_supported = lambda *_, **__: True
    cuda.nvtx._nvtx = make_ranges()


class Generator:
    """Random numbers of the device: a state that can be kept and set. No number is ever drawn."""

    device = torch.device("cuda", 0)

    def __init__(self):
        self.manual_seed(0)

    def manual_seed(self, seed):
        self.set_state(torch.tensor([seed & (1 << 63) - 1, 0]).view(torch.uint8))
        return self

    def initial_seed(self):
        return self.state.view(torch.int64)[0].item()

    def seed(self):
        self.manual_seed(0)  # Each recording is the same.
        return 0

    def get_state(self):
        return self.state.clone()

    def set_state(self, state):
        self.state = state.clone()
        return self


def install_random():
    cuda = torch.cuda
    generator = Generator()
    cuda.default_generators = (generator,) * cuda.device_count()  # All stand for the one device.
    for module in (cuda, cuda.random):
        module.manual_seed = generator.manual_seed
        module.manual_seed_all = generator.manual_seed
        module.seed = module.seed_all = generator.seed
        module.initial_seed = generator.initial_seed
        module.get_rng_state = lambda *_, **__: generator.get_state()
        module.set_rng_state = lambda state, *_, **__: generator.set_state(state)
        module.get_rng_state_all = lambda: [generator.get_state()]
        module.set_rng_state_all = lambda states: generator.set_state(states[0])


def install_memory(native, total):
    cuda = torch.cuda
    cuda.memory_allocated = lambda *_, **__: native.memory_now()
    cuda.max_memory_allocated = lambda *_, **__: native.memory_peak()
    cuda.memory_reserved = lambda *_, **__: native.memory_now()
    cuda.max_memory_reserved = lambda *_, **__: native.memory_peak()
    cuda.reset_peak_memory_stats = lambda *_, **__: native.reset_peak()
    cuda.empty_cache = lambda: None
    cuda.mem_get_info = lambda *_, **__: (total - native.memory_now(), total)
    cuda.memory_stats = lambda *_, **__: {
        "allocated_bytes.all.current": native.memory_now(),
        "allocated_bytes.all.peak": native.memory_peak(),
        "reserved_bytes.all.current": native.memory_now(),
        "reserved_bytes.all.peak": native.memory_peak(),
        "active_bytes.all.current": native.memory_now(),
        "active_bytes.all.peak": native.memory_peak(),
        "num_alloc_retries": 0, "num_ooms": 0}
    resize = torch.UntypedStorage.resize_

    def resize_storage(storage, size):
        if storage.device.type != "cuda":
            return resize(storage, size)
        native.resize_storage(storage._cdata, size)
        return storage

    torch.UntypedStorage.resize_ = resize_storage


def install_accelerator():
    accelerator = torch.accelerator
    torch._C._get_accelerator = lambda *_, **__: torch.device("cuda")
    accelerator.is_available = lambda: True
    accelerator.device_count = torch.cuda.device_count
    accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    accelerator.current_device_index = lambda: 0
    accelerator.current_device_idx = lambda: 0
    accelerator.set_device_index = lambda *_, **__: None
    accelerator.set_device_idx = lambda *_, **__: None
    if not hasattr(accelerator, "device_index"):  # PyTorch 2.7 has it, and scripts written for that.
        accelerator.device_index = lambda index: contextlib.nullcontext()
    accelerator.current_stream = torch.cuda.current_stream
    accelerator.synchronize = torch.cuda.synchronize
    torch.Tensor.pin_memory = lambda self, *_, **__: self
    torch.Tensor.is_pinned = lambda self, *_, **__: False


def install_attention(with_data):
    """A CPU build chooses no fused attention for the device, so the choice is made here."""
    functional = torch.nn.functional
    other = functional.scaled_dot_product_attention

    def in_steps(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                 enable_gqa=False):
        """The host has no fused kernel whose backward the device could take."""
        if hasattr(query, "device_mesh"):
            return of_parts(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        return torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]

    def of_parts(query, key, value, attn_mask, *others):
        """Distributed tensors of whole sequences: each rank computes its own heads."""
        if attn_mask is not None or any(
                place.is_partial() or place.is_shard() and place.dim not in (0, 1)
                for tensor in (query, key, value) for place in tensor.placements):
            raise RuntimeError("shardsim: attention with masks, or over parts of a sequence, of "
                               "distributed tensors cannot be verified yet")
        own = in_steps(query.to_local(), key.to_local(), value.to_local(), None, *others)
        return type(query).from_local(own, query.device_mesh, query.placements, run_check=False)

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                  enable_gqa=False):
        if not query.is_cuda or query.dim() != 4 or query.size(-1) > 256:
            return other(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                         enable_gqa=enable_gqa)
        is_half = query.dtype in (torch.bfloat16, torch.float16)
        if is_half and attn_mask is None and query.size(-1) == value.size(-1):
            return torch.ops.aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        # FlashAttention has no fp32, no masks and no values of another width; the other kernel wants
        # a key head for each query head.
        if enable_gqa and query.size(-3) != key.size(-3):
            repeats = query.size(-3) // key.size(-3)
            key = key.repeat_interleave(repeats, -3)
            value = value.repeat_interleave(repeats, -3)
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(
                    attn_mask.logical_not(), float("-inf"))
            attn_mask = attn_mask.expand(*query.shape[:3], key.size(2))
        has_backward = torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (query, key, value))
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, has_backward, dropout_p, is_causal, scale=scale)[0]

    functional.scaled_dot_product_attention = in_steps if with_data else attention


def install_fake_tensors():
    """PyTorch begins its CUDA context by a tiny tensor for each fake one that its caches have not
    seen, so ranks differ. The virtual GPU needs no context."""
    torch._subclasses.fake_tensor.init_gpu_context = lambda _: None


def install_text():
    """What is printed is a copy on the host: its values decide how many digits they get."""
    text = torch._tensor_str._tensor_str

    def text_of(tensor, indent):
        return text(tensor.cpu() if tensor.is_cuda else tensor, indent)

    torch._tensor_str._tensor_str = text_of


def install(native, facts, with_data=False):
    install_device(facts)
    install_random()
    install_streams(native)
    install_memory(native, facts["memory_bytes"])
    install_accelerator()
    install_attention(with_data)
    install_fake_tensors()
    install_text()
