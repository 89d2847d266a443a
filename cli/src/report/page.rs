//! The page: template, style, script and data put together.

use serde_json::Value;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page. The data goes in last, so that nothing in it is taken for a place of the template.
pub(super) fn render(data: &Value) -> String {
    let page = PAGE.replacen("{{STYLE}}", STYLE.trim_end(), 1).replacen("{{SCRIPT}}", SCRIPT.trim_end(), 1);
    page.replacen("{{DATA}}", &escaped(data), 1)
}

/// JSON that can't end the element it stands in, nor begin a comment there: `<`, `>` and `&` only occur within its strings, where
/// they may be written as escapes.
fn escaped(data: &Value) -> String {
    data.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_breaks_out_of_its_element() {
        for text in
            ["</script><script>alert(1)</script>", "<!--<script>", "{{STYLE}} {{SCRIPT}} {{DATA}}", "]]>&lt;\u{2028}\0"]
        {
            let data = json!({ "text": text });
            let inside = escaped(&data);
            assert!(!inside.contains(['<', '>', '&']), "{inside}");
            assert_eq!(serde_json::from_str::<Value>(&inside).unwrap(), data);
            let page = render(&data);
            assert_eq!(page.matches("</script>").count(), 2, "{text}");
            assert!(page.contains(&inside));
        }
    }

    #[test]
    fn the_page_names_nothing_outside_itself() {
        let page = render(&json!({}));
        for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "innerHTML", "eval("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
