//! Brackets, line breaks and the summary of a tensor's elements.

use std::borrow::Cow;

use super::element::Shown;
use super::{PrintOptions, Values};

/// What is shown of a dimension: how many from its start and from its end, and whether `...`
/// stands between them.
#[derive(Clone, Copy)]
struct Edges {
    head: usize,
    tail: usize,
    elided: bool,
}

impl Edges {
    fn of(size: usize, summarize: bool, options: &PrintOptions) -> Edges {
        let edge = options.edgeitems;
        if summarize && size > edge.saturating_mul(2) {
            Edges {
                head: edge,
                tail: edge,
                elided: true,
            }
        } else {
            Edges {
                head: size,
                tail: 0,
                elided: false,
            }
        }
    }
}

fn numel(shape: &[usize]) -> usize {
    // Saturating: an expanded tensor may count more elements than memory holds.
    shape.iter().fold(1, |n, &size| n.saturating_mul(size))
}

fn summarizes(shape: &[usize], options: &PrintOptions) -> bool {
    numel(shape) > options.threshold
}

/// Row-major positions of the elements of a tensor that its text shows, ascending: all of
/// them, or the edges of each dimension where the tensor is summarised.
///
/// ```
/// use torsh_tensor::print::{PrintOptions, displayed_indices};
///
/// let options = PrintOptions::default().threshold(10).edgeitems(1);
/// assert_eq!(displayed_indices(&[3, 4], &options), [0, 3, 8, 11]);
/// assert_eq!(displayed_indices(&[5], &options), [0, 1, 2, 3, 4]);
/// ```
pub fn displayed_indices(shape: &[usize], options: &PrintOptions) -> Vec<usize> {
    if shape.contains(&0) {
        return Vec::new();
    }
    let summarize = summarizes(shape, options);
    let mut indices = vec![0];
    for &size in shape {
        let edges = Edges::of(size, summarize, options);
        let kept = || (0..edges.head).chain(size - edges.tail..size);
        indices = indices
            .iter()
            .flat_map(|&i| kept().map(move |k| i * size + k))
            .collect();
    }
    indices
}

/// The elements in their brackets, `[[1, 2],\n [3, 4]]`, every line but the first indented by
/// `indent` columns for what the caller writes before it. For a tensor without elements, `[]`.
///
/// `values` holds all elements of `shape` or only those of [`displayed_indices`].
///
/// # Panics
///
/// If `values` has another number of elements than either.
///
/// ```
/// use torsh_tensor::print::{PrintOptions, Values, contents};
/// let text = contents(&[2, 2], &Values::Int(vec![1, 2, 3, 4]), 0, &PrintOptions::default());
/// assert_eq!(text, "[[1, 2],\n [3, 4]]");
/// ```
pub fn contents(shape: &[usize], values: &Values, indent: usize, options: &PrintOptions) -> String {
    if shape.contains(&0) {
        return "[]".to_owned();
    }
    let summarize = summarizes(shape, options);
    let shown = if summarize {
        let indices = displayed_indices(shape, options);
        if values.len() == indices.len() {
            Cow::Borrowed(values)
        } else {
            assert_numel(shape, values);
            Cow::Owned(values.select(&indices))
        }
    } else {
        assert_numel(shape, values);
        Cow::Borrowed(values)
    };
    let mut writer = Writer {
        shown: Shown::new(&shown, options),
        summarize,
        options,
        next: 0,
        out: String::new(),
    };
    writer.tensor(shape, indent);
    writer.out
}

#[track_caller]
fn assert_numel(shape: &[usize], values: &Values) {
    assert_eq!(
        values.len(),
        numel(shape),
        "values do not fill the shape {shape:?}"
    );
}

struct Writer<'a> {
    shown: Shown<'a>,
    summarize: bool,
    options: &'a PrintOptions,
    /// Elements are shown in the order they are held: the position of the next.
    next: usize,
    out: String,
}

impl Writer<'_> {
    fn tensor(&mut self, shape: &[usize], indent: usize) {
        match *shape {
            [] => self.element(),
            [size] => self.vector(size, indent),
            [size, ref rest @ ..] => self.slices(size, rest, indent),
        }
    }

    fn element(&mut self) {
        let text = self.shown.text(self.next);
        self.out.push_str(&text);
        self.next += 1;
    }

    fn new_line(&mut self, newlines: usize, indent: usize) {
        self.out.extend(std::iter::repeat_n('\n', newlines));
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn vector(&mut self, size: usize, indent: usize) {
        let edges = Edges::of(size, self.summarize, self.options);
        let room = self.options.linewidth.saturating_sub(indent);
        let per_line = (room / (self.shown.width() + 2)).max(1);
        let cells = edges.head + edges.tail + usize::from(edges.elided);
        self.out.push('[');
        for cell in 0..cells {
            if cell > 0 && cell % per_line == 0 {
                self.out.push(',');
                self.new_line(1, indent + 1);
            } else if cell > 0 {
                self.out.push_str(", ");
            }
            if edges.elided && cell == edges.head {
                // The dots take a cell of the line; alone they have no leading space.
                self.out.push_str(if cells == 1 { "..." } else { " ..." });
            } else {
                self.element();
            }
        }
        self.out.push(']');
    }

    fn slices(&mut self, size: usize, rest: &[usize], indent: usize) {
        let edges = Edges::of(size, self.summarize, self.options);
        let cells = edges.head + edges.tail + usize::from(edges.elided);
        self.out.push('[');
        for cell in 0..cells {
            if cell > 0 {
                self.out.push(',');
                // A blank line more for each dimension between the slices and their rows.
                self.new_line(rest.len(), indent + 1);
            }
            if edges.elided && cell == edges.head {
                self.out.push_str("...");
            } else {
                self.tensor(rest, indent + 1);
            }
        }
        self.out.push(']');
    }
}
