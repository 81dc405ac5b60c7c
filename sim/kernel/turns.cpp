#include "sim/kernel/turns.hpp"

#include <cstddef>
#include <exception>
#include <utility>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

namespace shardsim {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

}  // namespace

class Turns::Pair {
 public:
  void run(const std::function<void()>& first, const std::function<void()>& second,
           const std::function<void(bool is_second)>& takes, const std::function<void()>& fills) {
    // Whatever happens, nothing of the second is left on its stack.
    struct End {
      Pair& pair;
      ~End() {
        pair.runs_ = false;
        pair.second_ = {};
      }
    };
    const End end{*this};
    takes_ = takes ? &takes : nullptr;
    fills_ = fills ? &fills : nullptr;
    error_ = nullptr;
    has_first_ended_ = false;
    runs_ = true;
    second_ = boost::context::fiber(std::allocator_arg, stack_.lend(),
                                    [this, &second](boost::context::fiber&& from) {
                                      first_ = std::move(from);
                                      run_second(second);
                                      return std::move(first_);
                                    });
    first();
    has_first_ended_ = true;
    pass();
  }

  void pass() {
    if (!runs_) return;
    if (is_second_) {
      if (!has_first_ended_) {
        is_second_ = false;
        first_ = std::move(first_).resume();
        is_second_ = true;
      }
      if (fills_ != nullptr) (*fills_)();
      return;
    }
    if (!second_) return;
    is_second_ = true;
    tell(true);
    second_ = std::move(second_).resume();
    is_second_ = false;
    if (!has_first_ended_) tell(false);
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // Above a guard page. It is lent to one fiber after the other.
  class Stack {
   public:
    Stack() : source_(kStackBytes), stack_(source_.allocate()) {}
    ~Stack() { source_.deallocate(stack_); }
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;

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

  void tell(bool is_second) const {
    if (takes_ != nullptr) (*takes_)(is_second);
  }
  void run_second(const std::function<void()>& second) {
    try {
      second();
    } catch (const boost::context::detail::forced_unwind&) {
      throw;  // It unwinds this stack, and is caught below it.
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  Stack stack_;
  boost::context::fiber first_;   // Where it goes on; empty while it runs.
  boost::context::fiber second_;  // Empty while it runs, and when it has ended.
  std::exception_ptr error_;      // The second's.
  const std::function<void(bool)>* takes_ = nullptr;
  const std::function<void()>* fills_ = nullptr;
  bool runs_ = false;       // Both have not ended.
  bool is_second_ = false;  // It has the turn.
  bool has_first_ended_ = false;
};

Turns::Turns() = default;
Turns::~Turns() = default;

void Turns::run(const std::function<void()>& first, const std::function<void()>& second,
                const std::function<void(bool is_second)>& takes,
                const std::function<void()>& fills) {
  if (pair_ == nullptr) pair_ = std::make_unique<Pair>();
  pair_->run(first, second, takes, fills);
}

void Turns::pass() {
  if (pair_ != nullptr) pair_->pass();
}

}  // namespace shardsim
