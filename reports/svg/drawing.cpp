#include "reports/svg/drawing.hpp"

#include <fmt/format.h>

#include "reports/terminal_text.hpp"

namespace shardsim::svg {

namespace {

constexpr double kLegendLine = 20;
// The approximate width of a character at the size of labels.
constexpr double kCharacterWidth = 6.1;
constexpr double kSwatch = 12;

// By Anchor.
constexpr std::array kAnchors = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};

}  // namespace

std::string length(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

Drawing::Drawing(std::string_view title) : title_(title) {}

void Drawing::rect(double x, double y, double width, double height, std::string_view fill) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                       length(x), length(y), length(width), length(height), fill);
}

void Drawing::text(double x, double y, std::string_view text, Anchor anchor, std::string_view fill,
                   int size) {
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}>{}</text>\n",
                       length(x), length(y), size, fill,
                       kAnchors.at(static_cast<std::size_t>(anchor)), markup_text(text));
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view stroke,
                   bool is_dashed) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\"{}/>\n",
                       length(x1), length(y1), length(x2), length(y2), stroke,
                       is_dashed ? " stroke-width=\"1.5\" stroke-dasharray=\"5 4\"" : "");
}

void Drawing::path(std::string_view path, std::string_view fill) {
  body_ += fmt::format("<path d=\"{}\" fill=\"{}\"/>\n", path, fill);
}

void Drawing::disc(double x, double y, double radius, std::string_view fill,
                   std::string_view title) {
  body_ +=
      fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"><title>{}</title></circle>\n",
                  length(x), length(y), length(radius), fill, markup_text(title));
}

double Drawing::legend(const std::vector<Ink>& inks, double y) {
  double x = 0;
  for (const Ink& ink : inks) {
    const double width =
        kSwatch + 6 + kCharacterWidth * static_cast<double>(display_width(ink.name)) + 18;
    if (x > 0 && x + width > kFigureWidth) {
      x = 0;
      y += kLegendLine;
    }
    rect(x, y, kSwatch, kSwatch, ink.fill);
    text(x + kSwatch + 6, y + 10.5, ink.name, Anchor::start, kInk);
    x += width;
  }
  return y + kLegendLine + 4;
}

std::string Drawing::finish(double height) const {
  const std::string title = markup_text(title_);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" aria-label=\"{2}\" font-family=\"Liberation Sans, Helvetica, "
      "Arial, sans-serif\">\n<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#ffffff\"/>\n{3}</svg>\n",
      length(kFigureWidth), length(height), title, body_);
}

}  // namespace shardsim::svg
