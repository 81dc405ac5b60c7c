#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

// Stands in for the CUDA runtime and cuBLASLt where there is no GPU. A product takes its operations
// at 1 TFLOP/s on a clock of its own, and every wrong argument ends the process with the reason.
// STAND_IN_FAILS names a function that returns an error.
namespace {

constexpr double kFlopsPerMs = 1e9;
constexpr std::uintptr_t kFirstAddress = 1ULL << 32;
constexpr int kError = 13;

struct StandInLayout {
  int type = -1;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};

struct StandInDesc {
  std::int32_t transposes_a = 0;
};

struct StandInPreference {
  std::uint64_t workspace = 0;
};

struct StandInEvent {
  double at_ms = -1.0;
};

struct StandInHeuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

// Memory has addresses and no bytes.
std::map<std::uintptr_t, std::size_t> g_memory;
std::uintptr_t g_next = kFirstAddress;
double g_clock_ms = 0.0;
int g_live = 0;  // Objects that are not destroyed yet.

// A handle and two events may be left when the process ends.
struct AtTheEnd {
  ~AtTheEnd() {
    if (g_live <= 3) return;
    std::fprintf(stderr, "stand-in: %d objects are not destroyed\n", g_live - 3);
    std::_Exit(99);
  }
};
const AtTheEnd kAtTheEnd;

[[noreturn]] void wrong(const std::string& reason) {
  std::fprintf(stderr, "stand-in: %s\n", reason.c_str());
  std::_Exit(99);
}

void demand(bool holds, const std::string& reason) {
  if (!holds) wrong(reason);
}

bool fails(const char* name) {
  const char* failing = std::getenv("STAND_IN_FAILS");
  return failing != nullptr && std::strcmp(failing, name) == 0;
}

void demand_memory(const void* begin, std::size_t size, const char* what) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  auto block = g_memory.upper_bound(address);
  demand(block != g_memory.begin(), std::string(what) + " lies outside of all memory");
  --block;
  demand(address + size <= block->first + block->second,
         std::string(what) + " ends behind its memory");
}

std::size_t bytes_of(const StandInLayout& layout) {
  const std::map<int, std::size_t> sizes = {{14, 2}, {2, 2}, {0, 4}, {28, 1}};
  demand(sizes.count(layout.type) == 1, "a type that is none of cudaDataType_t's in use");
  return sizes.at(layout.type) * layout.rows * layout.columns *
         static_cast<std::size_t>(layout.batch);
}

void demand_layout(const StandInLayout& layout, const void* data, const char* what) {
  demand(layout.leading == static_cast<std::int64_t>(layout.rows), "rows are not side by side");
  demand(layout.stride == static_cast<std::int64_t>(layout.rows * layout.columns),
         "matrices of a batch are not side by side");
  demand(reinterpret_cast<std::uintptr_t>(data) % 16 == 0, std::string(what) + " is not aligned");
  demand_memory(data, bytes_of(layout), what);
}

void demand_product(const StandInDesc& desc, const StandInLayout& a, const StandInLayout& b,
                    const StandInLayout& c, const StandInLayout& d) {
  demand(desc.transposes_a == 1, "the first operand is not transposed");
  demand(a.rows == b.rows, "operands have other inner sizes");
  demand(d.rows == a.columns && d.columns == b.columns, "the result has other sizes");
  demand(&c == &d, "what is added is not what is written");
  demand(a.batch == b.batch && a.batch == d.batch, "batches differ");
  demand(a.type == b.type, "operands have different types");
}

template <class Object>
int make(void** made, const char* name) {
  if (fails(name)) return kError;
  *made = new Object();
  ++g_live;
  return 0;
}

template <class Object>
int destroy(void* object) {
  delete static_cast<Object*>(object);
  --g_live;
  return 0;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are those of NVIDIA.
extern "C" {

int cudaGetDeviceCount(int* count) {
  *count = fails("devices") ? 0 : 1;
  return 0;
}

int cudaMalloc(void** made, std::size_t size) {
  if (fails("cudaMalloc")) return 2;
  *made = reinterpret_cast<void*>(g_next);  // NOLINT(performance-no-int-to-ptr): no memory.
  g_memory[g_next] = size;
  g_next += size + (1U << 20);
  g_next -= g_next % 256;
  return 0;
}

int cudaFree(void* memory) {
  demand(g_memory.erase(reinterpret_cast<std::uintptr_t>(memory)) == 1, "no such memory to free");
  return 0;
}

int cudaMemcpy(void* to, const void* from, std::size_t size, int kind) {
  demand(kind == 1 && from != nullptr, "a copy that is not from the host");
  demand_memory(to, size, "what is copied to");
  return 0;
}

int cudaEventCreate(void** made) { return make<StandInEvent>(made, "cudaEventCreate"); }

int cudaEventRecord(void* event, void* stream) {
  demand(stream == nullptr, "another stream than that of the products");
  static_cast<StandInEvent*>(event)->at_ms = g_clock_ms;
  return 0;
}

int cudaEventSynchronize(void* event) {
  demand(static_cast<StandInEvent*>(event)->at_ms >= 0.0, "an event that is not recorded");
  return 0;
}

int cudaEventElapsedTime(float* elapsed, void* first, void* last) {
  const double begin = static_cast<StandInEvent*>(first)->at_ms;
  demand(begin >= 0.0, "an event that is not recorded");
  *elapsed = static_cast<float>(static_cast<StandInEvent*>(last)->at_ms - begin);
  return 0;
}

int cublasLtCreate(void** made) { return make<int>(made, "cublasLtCreate"); }

int cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  demand(compute == 68 && scale == 0, "sums are not in fp32");
  return make<StandInDesc>(made, "cublasLtMatmulDescCreate");
}

int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, std::size_t size) {
  demand(attribute == 3 && size == sizeof(std::int32_t),
         "an attribute that is not CUBLASLT_MATMUL_DESC_TRANSA");
  std::memcpy(&static_cast<StandInDesc*>(desc)->transposes_a, value, size);
  return 0;
}

int cublasLtMatrixLayoutCreate(void** made, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t leading) {
  const int code = make<StandInLayout>(made, "cublasLtMatrixLayoutCreate");
  if (code == 0) *static_cast<StandInLayout*>(*made) = {type, rows, columns, leading, 1, 0};
  return code;
}

int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value,
                                     std::size_t size) {
  auto& changed = *static_cast<StandInLayout*>(layout);
  if (attribute == 5 && size == sizeof(changed.batch)) {
    std::memcpy(&changed.batch, value, size);
  } else if (attribute == 6 && size == sizeof(changed.stride)) {
    std::memcpy(&changed.stride, value, size);
  } else {
    wrong("an attribute of a layout that is no batch");
  }
  return 0;
}

int cublasLtMatmulPreferenceCreate(void** made) {
  return make<StandInPreference>(made, "cublasLtMatmulPreferenceCreate");
}

int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                         std::size_t size) {
  demand(attribute == 1 && size == sizeof(std::uint64_t), "an attribute that is not the workspace");
  std::memcpy(&static_cast<StandInPreference*>(preference)->workspace, value, size);
  return 0;
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* desc, void* a, void* b, void* c, void* d,
                                   void* preference, int asked, void* results, int* found) {
  demand(handle != nullptr && asked == 1, "a heuristic without a handle");
  demand_product(*static_cast<StandInDesc*>(desc), *static_cast<StandInLayout*>(a),
                 *static_cast<StandInLayout*>(b), *static_cast<StandInLayout*>(c),
                 *static_cast<StandInLayout*>(d));
  auto& result = *static_cast<StandInHeuristic*>(results);
  result = {};
  result.algorithm[0] = 4711;
  result.workspace = static_cast<StandInPreference*>(preference)->workspace;
  *found = fails("cublasLtMatmulAlgoGetHeuristic") ? 0 : 1;
  return 0;
}

int cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* of_a,
                   const void* b, void* of_b, const void* beta, const void* c, void* of_c, void* d,
                   void* of_d, const void* algorithm, void* workspace, std::size_t workspace_bytes,
                   void* stream) {
  if (fails("cublasLtMatmul")) return kError;
  demand(handle != nullptr && stream == nullptr, "another stream than that of the events");
  demand(*static_cast<const std::uint64_t*>(algorithm) == 4711, "not the heuristic's algorithm");
  demand(*static_cast<const float*>(alpha) == 1.0F, "alpha is not 1");
  const auto& layout_a = *static_cast<StandInLayout*>(of_a);
  const auto& layout_b = *static_cast<StandInLayout*>(of_b);
  const auto& layout_d = *static_cast<StandInLayout*>(of_d);
  demand_product(*static_cast<StandInDesc*>(desc), layout_a, layout_b,
                 *static_cast<StandInLayout*>(of_c), layout_d);
  demand_layout(layout_a, a, "the first operand");
  demand_layout(layout_b, b, "the second operand");
  demand_layout(layout_d, d, "the result");
  demand(c == d, "what is added lies elsewhere than what is written");
  demand_memory(workspace, workspace_bytes, "the workspace");
  const double work = 2.0 * static_cast<double>(layout_a.rows) *
                      static_cast<double>(layout_a.columns) *
                      static_cast<double>(layout_b.columns) * layout_a.batch;
  // Twice as long where it adds, so that a test sees that.
  g_clock_ms += work / kFlopsPerMs * (*static_cast<const float*>(beta) == 1.0F ? 2.0 : 1.0);
  return 0;
}

int cublasLtMatmulDescDestroy(void* object) { return destroy<StandInDesc>(object); }
int cublasLtMatrixLayoutDestroy(void* object) { return destroy<StandInLayout>(object); }
int cublasLtMatmulPreferenceDestroy(void* object) { return destroy<StandInPreference>(object); }
}
// NOLINTEND(readability-identifier-naming)
