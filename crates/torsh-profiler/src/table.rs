//! Tables of events in PyTorch's layout.

use torsh_tensor::{Result, TorshError, options};

use crate::{EventKind, FunctionEvent, FunctionEventAvg, name};

options! {
    /// PyTorch's arguments of `table`.
    TableOptions {
        /// What rows are sorted by, the largest first; see
        /// [`KeyAverages::table`](crate::KeyAverages::table). Empty for their own order.
        sort_by: String = String::new(), &str => |v: &str| v.to_string();
        /// The most rows.
        row_limit: usize = 100;
        /// The most characters of a source line.
        max_src_column_width: usize = 75;
        /// The most characters of a name.
        max_name_column_width: usize = 55;
        /// The most characters of the shapes.
        max_shapes_column_width: usize = 80;
        /// A line above the table.
        header: Option<String> = None, &str => |v: &str| Some(v.to_string());
        /// Whether only events that lie in no other are shown.
        top_level_events_only: bool = false;
        /// The unit of all times: `s`, `ms` or `us`; by default that which suits each.
        time_unit: Option<String> = None, &str => |v: &str| Some(v.to_string());
    }
}

/// What a row shows.
pub(crate) struct Row<'a> {
    key: &'a str,
    kind: EventKind,
    count: usize,
    cpu_time_total: f64,
    self_cpu_time_total: f64,
    cpu_memory_usage: i64,
    self_cpu_memory_usage: i64,
    device_time_total: f64,
    self_device_time_total: f64,
    /// As Python prints the list.
    shapes: String,
    has_shapes: bool,
    stack: &'a [String],
    nested: bool,
}

impl<'a> Row<'a> {
    pub(crate) fn of_event(e: &'a FunctionEvent) -> Row<'a> {
        Row {
            key: e.key(),
            kind: e.kind,
            count: 1,
            cpu_time_total: e.cpu_time_total(),
            self_cpu_time_total: e.self_cpu_time_total,
            cpu_memory_usage: e.cpu_memory_usage(),
            self_cpu_memory_usage: e.self_cpu_memory_usage,
            device_time_total: e.device_time_total,
            self_device_time_total: e.self_device_time_total,
            shapes: format!("{:?}", e.input_shapes),
            has_shapes: !e.input_shapes.is_empty(),
            stack: &e.stack,
            nested: e.parent.is_some(),
        }
    }

    pub(crate) fn of_average(e: &'a FunctionEventAvg) -> Row<'a> {
        Row {
            key: &e.key,
            kind: e.kind,
            count: e.count,
            cpu_time_total: e.cpu_time_total,
            self_cpu_time_total: e.self_cpu_time_total,
            cpu_memory_usage: e.cpu_memory_usage,
            self_cpu_memory_usage: e.self_cpu_memory_usage,
            device_time_total: e.device_time_total,
            self_device_time_total: e.self_device_time_total,
            shapes: match &e.input_shapes {
                Some(shapes) => format!("{shapes:?}"),
                None => String::new(),
            },
            has_shapes: e.input_shapes.as_ref().is_some_and(|s| !s.is_empty()),
            stack: &e.stack,
            nested: false,
        }
    }

    fn cpu_time(&self) -> f64 {
        match self.count {
            0 => 0.0,
            n => self.cpu_time_total / n as f64,
        }
    }

    fn device_time(&self) -> f64 {
        match self.count {
            0 => 0.0,
            n => self.device_time_total / n as f64,
        }
    }
}

/// A way to read what rows are sorted by.
fn sort_key(name: &str) -> Result<fn(&Row<'_>) -> f64> {
    // As PyTorch does, which knew one kind of device first.
    Ok(match name.replace("cuda", "device").as_str() {
        "self_cpu_time_total" => |r| r.self_cpu_time_total,
        "cpu_time_total" => |r| r.cpu_time_total,
        "cpu_time" => |r| r.cpu_time(),
        "self_device_time_total" => |r| r.self_device_time_total,
        "device_time_total" => |r| r.device_time_total,
        "device_time" => |r| r.device_time(),
        "cpu_memory_usage" => |r| r.cpu_memory_usage as f64,
        "self_cpu_memory_usage" => |r| r.self_cpu_memory_usage as f64,
        "count" => |r| r.count as f64,
        _ => {
            return Err(TorshError::invalid(
                "table",
                format!("nothing is sorted by `{name}`"),
            )
            .with_hint("there are self_cpu_time_total, cpu_time_total, cpu_time, self_device_time_total, device_time_total, device_time, cpu_memory_usage, self_cpu_memory_usage and count"));
        }
    })
}

/// A time in the unit that suits it, or in the one that is asked for.
pub(crate) fn format_time(us: f64, unit: Option<&str>) -> String {
    match unit {
        Some("s") => format!("{:.3}s", us / 1e6),
        Some("ms") => format!("{:.3}ms", us / 1e3),
        Some("us") => format!("{us:.3}us"),
        _ if us >= 1e6 => format_time(us, Some("s")),
        _ if us >= 1e3 => format_time(us, Some("ms")),
        _ => format_time(us, Some("us")),
    }
}

fn format_share(us: f64, total: f64) -> String {
    match total == 0.0 {
        true => "NaN".to_string(),
        false => format!("{:.2}%", us * 100.0 / total),
    }
}

fn format_memory(bytes: i64) -> String {
    let b = bytes as f64;
    match bytes.unsigned_abs() {
        n if n >= 1 << 30 => format!("{:.2} GB", b / (1u64 << 30) as f64),
        n if n >= 1 << 20 => format!("{:.2} MB", b / (1u64 << 20) as f64),
        n if n >= 1 << 10 => format!("{:.2} KB", b / 1024.0),
        _ => format!("{bytes} B"),
    }
}

fn length(s: &str) -> usize {
    s.chars().count()
}

/// The first `n` characters.
fn head(s: &str, n: usize) -> String {
    s.chars().take(n).collect()
}

/// The last characters of a path that is too long.
fn trim_path(path: &str, width: usize) -> String {
    let n = length(path);
    if n <= width {
        return path.to_string();
    }
    let tail: String = path.chars().skip(n - width).collect();
    match width > 3 {
        true => format!("...{}", tail.chars().skip(3).collect::<String>()),
        false => tail,
    }
}

/// The columns' headers and widths; texts stand on the right but for source lines.
#[derive(Default)]
struct Columns {
    headers: Vec<String>,
    widths: Vec<usize>,
    has_stack: bool,
}

impl Columns {
    fn add(&mut self, header: &str, width: usize) {
        self.headers.push(header.to_string());
        self.widths.push(width);
    }

    fn line(&self, out: &mut String, cells: &[String]) {
        for (i, (cell, &w)) in cells.iter().zip(&self.widths).enumerate() {
            match self.has_stack && i + 1 == self.widths.len() {
                true => out.push_str(&format!("{cell:<w$}  ")),
                false => out.push_str(&format!("{cell:>w$}  ")),
            }
        }
        out.push('\n');
    }

    fn rule(&self, out: &mut String) {
        for &w in &self.widths {
            out.push_str(&"-".repeat(w));
            out.push_str("  ");
        }
        out.push('\n');
    }
}

const WIDTH: usize = 12;

/// The ops that were computed on the CPU for a device, and how often.
fn fallbacks(rows: &[Row<'_>]) -> Vec<(String, usize)> {
    let mut all: Vec<(String, usize)> = Vec::new();
    for r in rows.iter().filter(|r| r.kind == EventKind::Fallback) {
        let op = r.key.strip_prefix(name::FALLBACK).unwrap_or(r.key);
        match all.iter_mut().find(|(n, _)| n == op) {
            Some((_, count)) => *count += r.count,
            None => all.push((op.to_string(), r.count)),
        }
    }
    all
}

pub(crate) fn table(
    mut rows: Vec<Row<'_>>,
    memory: bool,
    use_device: Option<String>,
    o: &TableOptions,
) -> Result<String> {
    if !o.sort_by.is_empty() {
        let by = sort_key(&o.sort_by)?;
        // The sort is stable, as Python's.
        rows.sort_by(|a, b| by(b).total_cmp(&by(a)));
    }
    let unit = match o.time_unit.as_deref() {
        None | Some("s" | "ms" | "us") => o.time_unit.as_deref(),
        Some(other) => {
            return Err(TorshError::invalid(
                "table",
                format!("the time unit must be s, ms or us, got `{other}`"),
            ));
        }
    };
    if rows.is_empty() {
        return Ok(String::new());
    }
    let widest = |f: &dyn Fn(&Row<'_>) -> usize| rows.iter().map(f).max().unwrap_or(0);
    let name_width = (widest(&|r| length(r.key)) + 4).min(o.max_name_column_width);
    let shapes_width = (widest(&|r| length(&r.shapes)) + 4).min(o.max_shapes_column_width);
    let lines = |r: &Row<'_>| r.stack.iter().map(|l| length(l)).max().unwrap_or(0);
    let src_width = (widest(&lines) + 4).min(o.max_src_column_width);
    let has_shapes = rows.iter().any(|r| r.has_shapes);
    let mut columns = Columns {
        has_stack: rows.iter().any(|r| !r.stack.is_empty()),
        ..Columns::default()
    };
    columns.add("Name", name_width);
    let times = [
        "Self CPU %",
        "Self CPU",
        "CPU total %",
        "CPU total",
        "CPU time avg",
    ];
    times.iter().for_each(|h| columns.add(h, WIDTH));
    let device = use_device
        .map(|d| d.to_uppercase())
        .filter(|_| rows.iter().any(|r| r.self_device_time_total > 0.0));
    if let Some(d) = &device {
        columns.add(&format!("Self {d}"), WIDTH);
        columns.add(&format!("Self {d} %"), WIDTH);
        columns.add(&format!("{d} total"), WIDTH);
        columns.add(&format!("{d} time avg"), WIDTH);
    }
    if memory {
        columns.add("CPU Mem", WIDTH);
        columns.add("Self CPU Mem", WIDTH);
    }
    columns.add("# of Calls", WIDTH);
    if has_shapes {
        columns.add("Input Shapes", shapes_width);
    }
    if columns.has_stack {
        columns.add("Source Location", src_width);
    }
    let total: f64 = rows.iter().map(|r| r.self_cpu_time_total).sum();
    let device_total: f64 = rows.iter().map(|r| r.self_device_time_total).sum();
    let mut out = String::new();
    let line_length = columns.widths.iter().map(|w| w + 2).sum::<usize>() - 2;
    let double = "=".repeat(line_length) + "\n";
    if let Some(header) = &o.header {
        out += &format!("{double}{header}\n");
    }
    if o.top_level_events_only {
        out += &format!("{double}This report only display top-level ops statistics\n");
    }
    columns.rule(&mut out);
    columns.line(&mut out, &columns.headers);
    columns.rule(&mut out);
    let shown = rows
        .iter()
        .filter(|r| !o.top_level_events_only || !r.nested);
    for r in shown.take(o.row_limit) {
        let longest = o.max_name_column_width.saturating_sub(3);
        let mut cells = vec![match length(r.key) >= longest {
            true => head(r.key, longest) + "...",
            false => r.key.to_string(),
        }];
        cells.push(format_share(r.self_cpu_time_total, total));
        cells.push(format_time(r.self_cpu_time_total, unit));
        cells.push(format_share(r.cpu_time_total, total));
        cells.push(format_time(r.cpu_time_total, unit));
        cells.push(format_time(r.cpu_time(), unit));
        if device.is_some() {
            cells.push(format_time(r.self_device_time_total, unit));
            cells.push(format_share(r.self_device_time_total, device_total));
            cells.push(format_time(r.device_time_total, unit));
            cells.push(format_time(r.device_time(), unit));
        }
        if memory {
            cells.push(format_memory(r.cpu_memory_usage));
            cells.push(format_memory(r.self_cpu_memory_usage));
        }
        cells.push(r.count.to_string());
        if has_shapes {
            cells.push(head(&r.shapes, shapes_width));
        }
        if columns.has_stack {
            cells.push(
                r.stack
                    .first()
                    .map_or(String::new(), |l| trim_path(l, src_width)),
            );
        }
        columns.line(&mut out, &cells);
        if columns.has_stack {
            let below = r.stack.iter().skip(1).map(|l| trim_path(l, src_width));
            for line in below.chain([String::new()]) {
                let mut cells = vec![String::new(); columns.widths.len()];
                cells[columns.widths.len() - 1] = line;
                columns.line(&mut out, &cells);
            }
        }
    }
    columns.rule(&mut out);
    out += &format!("Self CPU time total: {}\n", format_time(total, unit));
    if let Some(d) = &device {
        let time = format_time(device_total, unit);
        out += &format!("Self {d} time total: {time}\n");
    }
    let fallbacks = fallbacks(&rows);
    if !fallbacks.is_empty() {
        let list: Vec<String> = fallbacks
            .iter()
            .map(|(n, c)| format!("{n} ({c})"))
            .collect();
        out += &format!(
            "Computed on the CPU for a device without their kernel: {}\n",
            list.join(", ")
        );
    }
    Ok(out)
}
