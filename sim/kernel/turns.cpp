#include "sim/kernel/turns.hpp"

#include <cstddef>
#include <utility>

#include <boost/context/protected_fixedsize_stack.hpp>

namespace shardsim {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

}  // namespace

// A guard page lies below it.
class Turns::Stack {
 public:
  Stack() : source_(kStackBytes), stack_(source_.allocate()) {}
  ~Stack() { source_.deallocate(stack_); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // Lends it to one fiber after the other.
  struct Lent {
    using traits_type = boost::context::stack_traits;
    boost::context::stack_context stack;
    boost::context::stack_context allocate() { return stack; }
    void deallocate(boost::context::stack_context&) noexcept {}
  };
  [[nodiscard]] Lent lend() const { return {stack_}; }

 private:
  boost::context::protected_fixedsize_stack source_;
  boost::context::stack_context stack_;
};

Turns::Turns() = default;
Turns::~Turns() = default;

void Turns::run(const std::function<void()>& first, const std::function<void()>& second) {
  if (stack_ == nullptr) stack_ = std::make_unique<Stack>();
  // Whatever happens, nothing of the second is left on its stack.
  struct End {
    Turns& turns;
    ~End() {
      turns.runs_ = false;
      turns.second_ = {};
    }
  };
  const End end{*this};
  error_ = nullptr;
  has_first_ended_ = false;
  runs_ = true;
  second_ = boost::context::fiber(std::allocator_arg, stack_->lend(),
                                  [this, &second](boost::context::fiber&& from) {
                                    first_ = std::move(from);
                                    try {
                                      second();
                                    } catch (const boost::context::detail::forced_unwind&) {
                                      throw;
                                    } catch (...) {
                                      error_ = std::current_exception();
                                    }
                                    return std::move(first_);
                                  });
  first();
  has_first_ended_ = true;
  pass();
}

void Turns::pass() {
  if (!runs_) return;
  if (is_second_) {
    if (has_first_ended_) return;
    is_second_ = false;
    first_ = std::move(first_).resume();
    is_second_ = true;
    return;
  }
  if (!second_) return;
  is_second_ = true;
  second_ = std::move(second_).resume();
  is_second_ = false;
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace shardsim
