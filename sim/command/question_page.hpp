#pragma once

#include "reports/question_page.hpp"

#include "sim/question/answer.hpp"

namespace shardsim {

/// The page of `shardsim plan --report` for a question about several machines: the rows of the
/// answer, in its order.
[[nodiscard]] QuestionPage question_page(const Answer& answer);

}  // namespace shardsim
