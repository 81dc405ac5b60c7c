#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "reports/terminal_text.hpp"

// The building blocks of the page. Arguments named `markup` are trusted; every other text is
// escaped.
namespace shardsim::html {

/// Text of several lines, line breaks kept.
[[nodiscard]] std::string markup_lines(std::string_view text);

/// A number whose unit stays on its line: "about 1.20 s".
[[nodiscard]] std::string unbroken(const std::string& value);

/// Words of ours, with separators in whole numbers of at least `least` digits: "rank 1,024". Digits
/// within a name or beside a point stay as they are.
[[nodiscard]] std::string grouped_digits(std::string_view text, std::size_t least = 4);

/// JSON as the content of a <script> element: no text in it can end the element.
[[nodiscard]] std::string script_json(std::string json);

/// Each text as an item of a list.
[[nodiscard]] std::string list_items(const std::vector<std::string>& texts);

// The printed summary is one page, so it has the first few of everything that may be long. The
// style sheet has the same numbers.
inline constexpr std::size_t kRowsOnPaper = 5;   ///< Each brief table and list has so many,
inline constexpr std::size_t kBarsOnPaper = 12;  ///< and each chart.

/// "3 more on screen." for paper, of which only `most` are there; empty if all are.
[[nodiscard]] std::string more_on_screen(std::size_t count, std::size_t most);

/// A list; empty without texts.
[[nodiscard]] std::string plain_list(const std::vector<std::string>& texts);

/// A list of which paper has the first few. `style`: one more class.
[[nodiscard]] std::string brief_list(const std::vector<std::string>& texts,
                                     std::string_view style = "");

/// The last line of a page on paper: what is left out there.
[[nodiscard]] std::string paper_note();

enum class OnPaper { yes, only_with_all };

/// A section of a page with its heading, for the script and for readers aloud; empty without
/// markup. `on_paper`: some are printed only where a reader has opened all sections.
[[nodiscard]] std::string section(std::string_view id, std::string_view title,
                                  const std::string& markup, OnPaper on_paper = OnPaper::yes);

/// A section that is folded away until a reader opens it: its heading with `fact`, one short
/// sentence, beside it. Empty without markup.
[[nodiscard]] std::string folded_section(std::string_view id, std::string_view title,
                                         std::string_view fact, const std::string& markup);

/// A page up to its body. `policy`: what its Content-Security-Policy allows beside its own style.
[[nodiscard]] std::string page_head(std::string_view policy, const std::string& title);

struct Column {
  std::string title;
  bool is_number = false;  ///< Stands at the right.
  bool is_wide = false;    ///< May be broken anywhere where the page is narrow.
};

/// A first column of text, and numbers behind it.
[[nodiscard]] std::vector<Column> text_and_numbers(std::initializer_list<const char*> titles);

/// A table with its caption, which scrolls by itself where it is wider than the page.
class Table {
 public:
  Table(std::string caption, std::vector<Column> columns);
  /// Lets a search field name the table.
  void set_id(std::string id) { id_ = std::move(id); }
  /// Paper has its first rows alone.
  void make_brief() { is_brief_ = true; }
  /// Cells as markup, as many as columns. The first is the heading of its row.
  void add_row(const std::vector<std::string>& markup);
  [[nodiscard]] std::string markup() const;

 private:
  std::string caption_;
  std::vector<Column> columns_;
  std::string id_;
  std::string body_;
  std::size_t rows_ = 0;
  bool is_brief_ = false;
};

/// "Numbers as a table", folded away.
[[nodiscard]] std::string folded(std::string_view title, const std::string& markup);

/// A search field for the table `id` of `rows` rows; hidden where there is no script.
[[nodiscard]] std::string search_field(std::string_view id, std::string_view label);

struct Figure {
  const char* chart = "";     ///< Its name in reports/web/src/main.js.
  std::string caption;        ///< How to read it.
  std::string label;          ///< Its content, for those who cannot see it.
  std::string static_markup;  ///< Instead of it on paper and without a script; may be empty.
};
[[nodiscard]] std::string figure(const Figure& figure);

// Amounts as people who pay read them.

/// "$720,000", "$1.23 M", "$12.3".
[[nodiscard]] std::string format_usd(double usd);

/// "1 T", "15.6 T", "300 B".
[[nodiscard]] std::string format_tokens(double tokens);

/// "94 days", "5.2 hours".
[[nodiscard]] std::string format_days(double days);

/// "41 %", "8.5 %": two digits.
[[nodiscard]] std::string format_share(double share);

// The scripts and the style of pages, made from reports/web/dist by reports/web/embed.py.

/// The charts' script with the licences of its parts,
[[nodiscard]] std::string report_script();
/// the script of pages with plain figures, and the style sheet of all.
[[nodiscard]] std::string page_script();
[[nodiscard]] std::string report_style();

/// SHA-256 of a script in base64, as a Content-Security-Policy names the only script it lets run.
[[nodiscard]] std::string report_script_hash();
[[nodiscard]] std::string page_script_hash();

/// The buttons that unfold sections and change colours; hidden where there is no script.
[[nodiscard]] std::string page_buttons();

/// A whole page with plain figures: its head, `eyebrow` above the title, `facts` below it.
struct PlainPage {
  std::string eyebrow;
  std::string title;
  std::string facts;
  std::string main;    ///< Markup.
  std::string footer;  ///< Behind "Written by shardsim 1.2.3."
};
[[nodiscard]] std::string plain_page(const PlainPage& page);

}  // namespace shardsim::html
