//! Puts titles, legends, axes and series on an image.

use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement};
use plotters::prelude::{Color, FontDesc, FontFamily, FontStyle, LabelAreaPosition, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{TextStyle, WHITE};
use plotters_backend::{BackendCoord, DrawingBackend};
use torsh_tensor::{Result, TorshError};

use super::axis::{Axis, Range, Scale, Ticks};
use super::bitmap::SIZE_OF_EM;
use super::fonts::Fonts;
use super::{Layout, PALETTE, Panel, Plot, Series};

const INK: RGBColor = RGBColor(40, 44, 52);
const GRID: RGBColor = RGBColor(222, 225, 230);
const FINE_GRID: RGBColor = RGBColor(241, 242, 244);

/// The em of letters in a panel of the usual size.
const HEADING: f64 = 20.0;
const TITLE: f64 = 16.0;
const TEXT: f64 = 13.0;

/// Up to how many points are marked unasked.
const MARKED: usize = 40;

type Area<DB> = DrawingArea<DB, Shift>;
type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

struct Pen {
    fonts: &'static Fonts,
    unit: f64,
}

/// Where something is, in pixels of the backend.
#[derive(Clone, Copy)]
struct Frame {
    x: i32,
    y: i32,
    width: i32,
    height: i32,
}

/// Draws everything; the backend's pixels are `factor` times as fine as the layout's.
#[track_caller]
pub(super) fn draw<DB: DrawingBackend>(
    backend: DB,
    plot: &Plot,
    layout: &Layout,
    factor: u32,
    fonts: &'static Fonts,
) -> Result<()> {
    let pen = Pen {
        fonts,
        unit: layout.unit * f64::from(factor),
    };
    let root = backend.into_drawing_area();
    let drawn = pen.plot(&root, plot, layout);
    drawn.map_err(|e| TorshError::Other(format!("Plot::save: drawing failed: {e}")))
}

fn color(series: &Series, number: usize) -> RGBColor {
    let [r, g, b] = series.color.unwrap_or(PALETTE[number % PALETTE.len()]);
    RGBColor(r, g, b)
}

/// The points of a series as places along the axes, in runs without gaps.
fn runs(series: &Series, x: Scale, y: Scale) -> Vec<Vec<(f64, f64)>> {
    let mut runs = vec![Vec::new()];
    for point in &series.points {
        match (x.place(point.0), y.place(point.1), runs.last_mut()) {
            (Some(x), Some(y), Some(run)) => run.push((x, y)),
            _ => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// Leaves out what cannot be seen: of neighbours in one column of pixels only the first, the
/// highest, the lowest and the last stay.
fn thin(points: &[BackendCoord]) -> Vec<BackendCoord> {
    let mut out = Vec::new();
    for column in points.chunk_by(|a, b| a.0 == b.0) {
        let by_y = |i: &usize| column[*i].1;
        let last = column.len() - 1;
        let ends = (0..=last).min_by_key(by_y).zip((0..=last).max_by_key(by_y));
        let (low, high) = ends.unwrap_or((0, 0));
        out.extend([0, low.min(high), low.max(high), last].map(|i| column[i]));
    }
    out.dedup();
    out
}

impl Pen {
    fn px(&self, v: f64) -> i32 {
        (v * self.unit).round() as i32
    }

    fn style(&self, em: f64, bold: bool, h: HPos, v: VPos) -> TextStyle<'static> {
        let style = if bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        let size = em * self.unit * SIZE_OF_EM;
        let font = FontDesc::new(FontFamily::SansSerif, size, style);
        TextStyle::from(font).color(&INK).pos(Pos::new(h, v))
    }

    fn width(&self, text: &str) -> i32 {
        self.fonts.width(text, TEXT * self.unit, false)
    }

    fn fit(&self, text: &str, em: f64, bold: bool, width: i32) -> String {
        self.fonts.fit(text, em * self.unit, bold, width)
    }

    fn plot<DB: DrawingBackend>(&self, root: &Area<DB>, plot: &Plot, layout: &Layout) -> Drawn<DB> {
        root.fill(&WHITE)?;
        let (width, height) = root.dim_in_pixel();
        let (width, height) = (width as i32, height as i32);
        let mut top = 0;
        if !plot.title.is_empty() {
            let title = self.fit(&plot.title, HEADING, true, width - self.px(24.0));
            let style = self.style(HEADING, true, HPos::Center, VPos::Top);
            root.draw_text(&title, &style, (width / 2, self.px(14.0)))?;
            top = self.px(36.0);
        }
        let (columns, rows) = (layout.columns as i32, layout.rows as i32);
        for (i, panel) in plot.panels.iter().enumerate() {
            let (row, column) = (i as i32 / columns, i as i32 % columns);
            let frame = Frame {
                x: column * width / columns,
                y: top + row * (height - top) / rows,
                width: width / columns,
                height: (height - top) / rows,
            };
            self.panel(root, panel, frame)?;
        }
        root.present()
    }

    fn panel<DB: DrawingBackend>(&self, root: &Area<DB>, panel: &Panel, frame: Frame) -> Drawn<DB> {
        let (pad, mut y) = (self.px(14.0), frame.y + self.px(12.0));
        let inner = frame.width - 2 * pad;
        if !panel.title.is_empty() {
            let title = self.fit(&panel.title, TITLE, true, inner);
            let style = self.style(TITLE, true, HPos::Left, VPos::Top);
            root.draw_text(&title, &style, (frame.x + pad, y))?;
            y += self.px(TITLE + 8.0);
        }
        let most = (f64::from(frame.height) * 0.35) as i32;
        y = self.legend(root, panel, (frame.x + pad, y), (inner, most))?;
        let below = Frame {
            y,
            height: frame.y + frame.height - y,
            ..frame
        };
        self.chart(root, panel, below)
    }

    /// The names of the series, in rows; returns where they end.
    fn legend<DB: DrawingBackend>(
        &self,
        root: &Area<DB>,
        panel: &Panel,
        (left, top): BackendCoord,
        (width, height): (i32, i32),
    ) -> Result<i32, DrawingAreaErrorKind<DB::ErrorType>> {
        let (mark, gap, line) = (self.px(22.0), self.px(6.0), self.px(TEXT + 6.0));
        let rows = (height / line).max(1);
        let style = self.style(TEXT, false, HPos::Left, VPos::Center);
        let named = panel.series.iter().enumerate();
        let named: Vec<_> = named.filter(|(_, s)| !s.name.is_empty()).collect();
        let (mut x, mut row) = (0, 0);
        for (k, (i, series)) in named.iter().enumerate() {
            let name = self.fit(&series.name, TEXT, false, width - mark - gap);
            let entry = mark + gap + self.width(&name);
            if x > 0 && x + entry > width {
                (x, row) = (0, row + 1);
            }
            let at = (left + x, top + row * line + line / 2);
            let more = named.len() - k;
            if row + 1 >= rows && more > 1 {
                // The last row is kept for what does not fit, if anything does not.
                let rest = named[k..]
                    .iter()
                    .map(|(_, s)| self.width(&s.name) + mark + 3 * gap);
                if x + rest.sum::<i32>() > width {
                    root.draw_text(&format!("and {more} more"), &style, at)?;
                    break;
                }
            }
            let color = color(series, *i);
            let stroke = color.stroke_width(self.px(2.0) as u32);
            let ends = vec![at, (at.0 + mark, at.1)];
            root.draw(&PathElement::new(ends, stroke))?;
            let middle = (at.0 + mark / 2, at.1);
            if self.marked(series) {
                root.draw(&Circle::new(middle, self.px(3.0), color.filled()))?;
            }
            root.draw_text(&name, &style, (at.0 + mark + gap, at.1))?;
            x += entry + 2 * gap;
        }
        Ok(match named.is_empty() {
            true => top,
            false => top + (row + 1) * line,
        })
    }

    fn marked(&self, series: &Series) -> bool {
        series.markers.unwrap_or(series.points.len() <= MARKED)
    }

    /// Axes, grid and series.
    fn chart<DB: DrawingBackend>(&self, root: &Area<DB>, panel: &Panel, frame: Frame) -> Drawn<DB> {
        let (x_scale, y_scale) = (Scale::new(panel.log_x), Scale::new(panel.log_y));
        let runs: Vec<_> = panel
            .series
            .iter()
            .map(|s| runs(s, x_scale, y_scale))
            .collect();
        // Only points that are drawn count; an x beside a NaN is drawn nowhere.
        let points = || {
            let all = panel.series.iter().flat_map(|s| &s.points);
            all.filter(|p| x_scale.place(p.0).is_some() && y_scale.place(p.1).is_some())
        };
        let x = match points().next() {
            Some(_) => Range::of(x_scale, points().map(|p| p.0), 0.03),
            None => {
                let all = panel.series.iter().flat_map(|s| &s.points);
                Range::of(x_scale, all.map(|p| p.0), 0.03)
            }
        };
        let y = Range::of(y_scale, points().map(|p| p.1), 0.06);

        let tick = self.px(4.0);
        let (line, edge) = (self.px(TEXT + 5.0), self.px(14.0));
        let label = |text: &str| if text.is_empty() { 0 } else { line };
        let below = 2 * tick + line + label(&panel.x_label);
        let height = frame.height - below - edge;
        let y_ticks = y.ticks((height / self.px(44.0)).clamp(2, 8) as usize);
        let widest = |ticks: &Ticks| {
            let widths = ticks.major.iter().map(|(_, text)| self.width(text));
            widths.max().unwrap_or(0)
        };
        let left = edge + label(&panel.y_label) + widest(&y_ticks) + 2 * tick;
        let room = frame.width - left - edge;
        // As many ticks as have room for their labels, with space between them.
        let fits =
            |ticks: &Ticks| (widest(ticks) + self.px(18.0)) * ticks.major.len() as i32 <= room;
        let x_ticks = (2..=10).rev().map(|most| x.ticks(most)).find(fits);
        let x_ticks = x_ticks.unwrap_or_else(|| x.ticks(1));
        let right = edge.max(widest(&x_ticks) / 2 + self.px(4.0));

        let area = root
            .clone()
            .shrink((frame.x, frame.y), (frame.width, frame.height));
        let (x_mid, y_mid) = (x.middle(), y.middle());
        let (x, y) = (Axis::new(x, x_ticks), Axis::new(y, y_ticks));
        let mut chart = ChartBuilder::on(&area)
            .margin_top(self.px(10.0))
            .margin_left(edge)
            .margin_right(right)
            .margin_bottom(edge / 2)
            .set_label_area_size(LabelAreaPosition::Left, left - edge)
            .set_label_area_size(LabelAreaPosition::Bottom, below)
            .build_cartesian_2d(x, y)?;
        let thin_line = self.px(1.0).max(1) as u32;
        let text = self.style(TEXT, false, HPos::Left, VPos::Top);
        let mut mesh = chart.configure_mesh();
        mesh.label_style(text.clone())
            .axis_desc_style(text)
            .axis_style(INK.stroke_width(thin_line))
            .bold_line_style(GRID.stroke_width(thin_line))
            .light_line_style(FINE_GRID.stroke_width(thin_line))
            .set_all_tick_mark_size(tick);
        if !panel.x_label.is_empty() {
            mesh.x_desc(self.fit(&panel.x_label, TEXT, false, room));
        }
        if !panel.y_label.is_empty() {
            mesh.y_desc(self.fit(&panel.y_label, TEXT, false, height));
        }
        mesh.draw()?;

        let place = chart.plotting_area();
        if runs.iter().all(Vec::is_empty) {
            let style = self.style(TEXT, false, HPos::Center, VPos::Center);
            let middle = place.map_coordinate(&(x_mid, y_mid));
            root.draw_text("no finite values", &style, middle)?;
        }
        for (i, (series, runs)) in panel.series.iter().zip(&runs).enumerate() {
            let color = color(series, i);
            let stroke = color.stroke_width(self.px(2.0) as u32);
            for run in runs {
                let path: Vec<BackendCoord> = run.iter().map(|p| place.map_coordinate(p)).collect();
                if path.len() > 1 {
                    root.draw(&PathElement::new(thin(&path), stroke))?;
                }
                if self.marked(series) || path.len() == 1 {
                    let radius = self.px(if path.len() == 1 { 4.0 } else { 3.0 });
                    for at in path {
                        root.draw(&Circle::new(at, radius, color.filled()))?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_ends_and_extremes_of_a_column() {
        let points = [
            (0, 5),
            (1, 3),
            (1, 9),
            (1, 4),
            (1, 1),
            (1, 2),
            (2, 2),
            (2, 2),
        ];
        assert_eq!(
            thin(&points),
            [(0, 5), (1, 3), (1, 9), (1, 1), (1, 2), (2, 2)]
        );
    }

    #[test]
    fn what_has_no_place_parts_a_series() {
        let points = [
            (1.0, 1.0),
            (2.0, 10.0),
            (3.0, f64::NAN),
            (4.0, -1.0),
            (5.0, 100.0),
        ];
        let series = Series::new("", points);
        let linear = runs(&series, Scale::Linear, Scale::Linear);
        assert_eq!(linear, [&points[..2], &points[3..]]);
        let log = runs(&series, Scale::Linear, Scale::Log);
        assert_eq!(log, [vec![(1.0, 0.0), (2.0, 1.0)], vec![(5.0, 2.0)]]);
    }
}
