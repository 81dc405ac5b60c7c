#include "sim/serve/http_connection.hpp"

#include <chrono>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

namespace shardsim {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using RequestFields = http::request<http::string_body>;

constexpr int kBadRequest = 400;
constexpr int kTooLarge = 413;
constexpr int kHeaderTooLarge = 431;
constexpr int kOk = 200;
// Unsent bytes at which a client that does not read is dropped.
constexpr std::size_t kMostUnsent = std::size_t{1} << 20U;
// Read and thrown away behind a refusal, so that the client sees it before the end.
constexpr std::size_t kMostDrained = std::size_t{1} << 16U;
constexpr int kDrainSeconds = 1;

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }

std::vector<std::string_view> lines_of(const RequestFields& request, http::field name) {
  std::vector<std::string_view> lines;
  const auto [begin, end] = request.equal_range(name);
  for (auto line = begin; line != end; ++line) lines.push_back(view_of(line->value()));
  return lines;
}

RequestHead head_of(const RequestFields& request) {
  return {.method = view_of(request.method_string()),
          .target = view_of(request.target()),
          .hosts = lines_of(request, http::field::host),
          .origins = lines_of(request, http::field::origin),
          .content_types = lines_of(request, http::field::content_type),
          .is_chunked = request.find(http::field::transfer_encoding) != request.end()};
}

// Nothing of the answer is kept, framed, guessed at or told to other sites.
void set_safe_fields(http::fields& fields) {
  fields.set(http::field::cache_control, "no-store");
  fields.set("Content-Security-Policy", kPolicy);
  fields.set("X-Content-Type-Options", "nosniff");
  fields.set("Referrer-Policy", "no-referrer");
}

}  // namespace

HttpConnection::HttpConnection(int id, asio::ip::tcp::socket socket, ConnectionOwner& owner)
    : id_(id), stream_(std::move(socket)), timer_(stream_.get_executor()), owner_(owner) {}

void HttpConnection::close(WorkEnd why) {
  if (is_closed_) return;
  is_closed_ = true;
  if (work_) work_->end(why);
  work_.reset();  // It holds this connection.
  timer_.cancel();
  Failed ignored;
  stream_.socket().close(ignored);
  owner_.closed(id_);
}

void HttpConnection::read_head() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(owner_.limits().max_header_bytes));
  parser_->body_limit(owner_.limits().max_body_bytes);
  stream_.expires_after(std::chrono::seconds(owner_.limits().receive_s));
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Failed error, std::size_t) { self->on_head(error); });
}

void HttpConnection::on_head(Failed error) {
  if (is_closed_) return;
  if (error == http::error::header_limit) return refuse(kHeaderTooLarge);
  if (error == http::error::body_limit) return refuse(kTooLarge);
  const bool is_malformed =
      error.category() == http::make_error_code(http::error::bad_method).category();
  if (error && is_malformed && error != http::error::end_of_stream &&
      error != http::error::partial_message) {
    return refuse(kBadRequest);
  }
  if (error) return close(WorkEnd::client_gone);
  const RequestFields& request = parser_->get();
  constexpr unsigned kVersion = 11;
  if (request.version() != kVersion) return refuse(kBadRequest);
  const Admission admission = owner_.gate().admit(head_of(request));
  if (admission.refusal != 0) return refuse(admission.refusal);
  is_stranger_ = false;
  // The deadline is still that of the whole request.
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this(), route = admission.route](
                       Failed failed, std::size_t) { self->on_body(failed, route); });
}

void HttpConnection::on_body(Failed error, const Route* route) {
  if (is_closed_) return;
  if (error == http::error::body_limit) return refuse(kTooLarge);
  if (error) return close(WorkEnd::client_gone);
  do_work(route);
}

void HttpConnection::do_work(const Route* route) {
  RequestFields request = parser_->release();
  const bool keeps = request.keep_alive();
  HttpRequest asked{.route = route,
                    .page = std::string(view_of(request["Shardsim-Page"])),
                    .body = std::move(request.body())};
  if (route->door == Door::at_once) return answer(owner_.services().at_once(asked), keeps);
  work_ = std::make_shared<HttpWork>(std::move(asked));
  const bool is_stream = route->door == Door::stream;
  const auto self = shared_from_this();
  work_->begun = [self, is_stream] {
    const ServeLimits& limits = self->owner_.limits();
    self->start_timer(is_stream ? limits.search_s : limits.run_s);
    if (is_stream) self->begin_stream();
  };
  work_->set_back = [self] { self->timer_.cancel(); };
  work_->sent = [self](const std::string& event) {
    self->queue_bytes(fmt::format("{:x}\r\n{}\r\n", event.size(), event));
  };
  work_->answered = [self, keeps](const HttpAnswer& result) {
    if (self->is_closed_) return;
    self->timer_.cancel();
    self->work_.reset();
    if (result.status == kEndOfStream) {
      self->is_last_ = true;
      return self->queue_bytes("0\r\n\r\n");
    }
    Failed ignored;
    self->stream_.socket().cancel(ignored);  // The watch.
    self->answer(result, keeps);
  };
  stream_.expires_never();
  watch();
  owner_.take(work_);
}

void HttpConnection::start_timer(int seconds) {
  timer_.expires_after(std::chrono::seconds(seconds));
  timer_.async_wait([held = std::weak_ptr<HttpWork>(work_)](Failed error) {
    if (error) return;
    if (const HeldWork work = held.lock()) work->end(WorkEnd::time_limit);
  });
}

void HttpConnection::watch() {
  stream_.socket().async_wait(
      asio::ip::tcp::socket::wait_read, [self = shared_from_this()](Failed error) {
        if (error || self->is_closed_ || !self->work_) return;
        char byte = 0;
        const auto got =
            recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        // More bytes are a next request. It waits, and the end behind it cannot be seen.
        if (got <= 0) self->close(WorkEnd::client_gone);
      });
}

void HttpConnection::answer(const HttpAnswer& answer, bool keeps) {
  auto response = std::make_shared<http::response<http::string_body>>(
      http::int_to_status(static_cast<unsigned>(answer.status)), 11U);
  set_safe_fields(*response);
  response->set(http::field::content_type, answer.type);
  response->keep_alive(keeps);
  response->body() = answer.body;
  response->prepare_payload();
  stream_.expires_after(std::chrono::seconds(owner_.limits().receive_s));
  http::async_write(stream_, *response,
                    [self = shared_from_this(), response, keeps](Failed error, std::size_t) {
                      if (self->is_closed_) return;
                      if (error || !keeps) return self->close(WorkEnd::client_gone);
                      self->read_head();
                    });
}

void HttpConnection::refuse(int status) {
  auto response = std::make_shared<http::response<http::string_body>>(
      http::int_to_status(static_cast<unsigned>(status)), 11U);
  set_safe_fields(*response);
  response->keep_alive(false);
  response->prepare_payload();
  stream_.expires_after(std::chrono::seconds(kDrainSeconds));
  http::async_write(stream_, *response,
                    [self = shared_from_this(), response](Failed error, std::size_t) {
                      if (self->is_closed_) return;
                      if (error) return self->close(WorkEnd::client_gone);
                      Failed ignored;
                      self->stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
                      self->buffer_.clear();
                      self->drain(kMostDrained);
                    });
}

void HttpConnection::drain(std::size_t left) {
  constexpr std::size_t kAtOnce = 4096;
  stream_.async_read_some(buffer_.prepare(kAtOnce),
                          [self = shared_from_this(), left](Failed error, std::size_t got) {
                            if (self->is_closed_) return;
                            if (error || got >= left) return self->close(WorkEnd::client_gone);
                            self->drain(left - got);
                          });
}

void HttpConnection::begin_stream() {
  http::fields fields;
  set_safe_fields(fields);
  std::string head = fmt::format("HTTP/1.1 {} OK\r\n", kOk);
  for (const auto& field : fields) {
    head += fmt::format("{}: {}\r\n", view_of(field.name_string()), view_of(field.value()));
  }
  head +=
      "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
  queue_bytes(std::move(head));
}

void HttpConnection::queue_bytes(std::string bytes) {
  if (is_closed_) return;
  num_unsent_ += bytes.size();
  if (num_unsent_ > kMostUnsent) return close(WorkEnd::client_gone);
  unsent_.push_back(std::move(bytes));
  if (!is_writing_) write_next();
}

void HttpConnection::write_next() {
  if (unsent_.empty()) {
    is_writing_ = false;
    if (is_last_) close(WorkEnd::client_gone);
    return;
  }
  is_writing_ = true;
  stream_.expires_after(std::chrono::seconds(owner_.limits().receive_s));
  asio::async_write(stream_, asio::buffer(unsent_.front()),
                    [self = shared_from_this()](Failed error, std::size_t) {
                      if (self->is_closed_) return;
                      if (error) return self->close(WorkEnd::client_gone);
                      self->stream_.expires_never();
                      self->num_unsent_ -= self->unsent_.front().size();
                      self->unsent_.pop_front();
                      self->write_next();
                    });
}

}  // namespace shardsim
