"""PDF, on landscape A4."""

import io
from decimal import Decimal

from reportlab.graphics.charts.barcharts import VerticalBarChart
from reportlab.graphics.shapes import Drawing
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4, landscape
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from metering.selectors.bills import BillDocument, DocumentLine

from .columns import NEVER_RAN, head

INK, GREY, SHADE, BAR = (
    colors.HexColor(code) for code in ("#182433", "#667382", "#eef2f6", "#206bc4")
)
SANS, BOLD = "Helvetica", "Helvetica-Bold"
# For what Helvetica has no letters for: known to every reader, and not put into the file.
CJK = "STSong-Light"
LATIN = "cp1252"
BODY = ParagraphStyle("body", fontName=SANS, fontSize=8, leading=10, textColor=INK)
SMALL = ParagraphStyle("small", parent=BODY, fontSize=7, leading=9, textColor=GREY)
TITLE = ParagraphStyle("title", parent=BODY, fontName=BOLD, fontSize=18, leading=22)
SUB = ParagraphStyle("sub", parent=BODY, fontName=BOLD, fontSize=10, leading=14, spaceBefore=8)
HEADINGS = (
    *("Lane", "Model", "Calls", "Charged", "Prompt\ntokens", "of these\ncached"),
    *("Completion\ntokens", "GPU-\nseconds", "Pre-\nempted", "Pre-\nempting"),
    *("Charge", "Credit", "Surcharge", "Amount"),
)
WIDTHS = tuple(width * mm for width in (14, 50, 15, 16, 22, 22, 22, 20, 14, 15, 18, 15, 18, 20))


def as_pdf(document: BillDocument) -> bytes:
    """The whole bill: figures, chart by day, credit notes."""
    if CJK not in pdfmetrics.getRegisteredFontNames():
        pdfmetrics.registerFont(UnicodeCIDFont(CJK))
    file = io.BytesIO()
    template = SimpleDocTemplate(
        file,
        pagesize=landscape(A4),
        leftMargin=8 * mm,
        rightMargin=8 * mm,
        topMargin=12 * mm,
        bottomMargin=14 * mm,
        title=f"Bill {document.number}",
        author="Fairlane",
        subject=f"{document.business}, {document.month:%B %Y}",
    )

    def foot(canvas: Canvas, _: object) -> None:
        canvas.setFont(SANS, 7)
        canvas.setFillColor(GREY)
        canvas.drawString(8 * mm, 8 * mm, f"Bill {document.number}, {document.business}")
        canvas.drawRightString(landscape(A4)[0] - 8 * mm, 8 * mm, f"Page {canvas.getPageNumber()}")

    template.build(_story(document), onFirstPage=foot, onLaterPages=foot)
    return file.getvalue()


def _story(document: BillDocument) -> list[Flowable]:
    story: list[Flowable] = [
        Paragraph(f"Bill {document.number}", TITLE),
        Paragraph(f"{document.business}, {document.month:%B %Y}", SUB),
        Spacer(1, 3 * mm),
        _facts(document),
        Spacer(1, 4 * mm),
        _lines(document),
    ]
    if document.notes:
        story += [Paragraph("Credit notes", SUB), _notes(document)]
    if any(amount for _, amount in document.days):
        story += [Paragraph(f"Amount by day, {document.currency}", SUB), _chart(document)]
    story.append(
        Paragraph(
            "A call belongs to the day on which it was accepted. Calls that failed before any"
            " output are not charged. Amounts are exact and rounded once, so that the lines add"
            " up to the total.",
            SMALL,
        )
    )
    return story


def _facts(document: BillDocument) -> Table:
    rows = [[_text(what, SMALL), _text(value)] for what, value in head(document)]
    half = (len(rows) + 1) // 2
    left, right = rows[:half], rows[half:] + [["", ""]] * (2 * half - len(rows))
    table = Table(
        [a + b for a, b in zip(left, right, strict=True)],
        colWidths=[22 * mm, 90 * mm, 22 * mm, 90 * mm],
        hAlign="LEFT",
    )
    table.setStyle(TableStyle([("TOPPADDING", (0, 0), (-1, -1), 1), *_TIGHT]))
    return table


_TIGHT = [
    ("BOTTOMPADDING", (0, 0), (-1, -1), 1),
    ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ("LEFTPADDING", (0, 0), (-1, -1), 2),
    ("RIGHTPADDING", (0, 0), (-1, -1), 3),
]


def _lines(document: BillDocument) -> Table:
    rows: list[list[object]] = [list(HEADINGS)]
    rows += [_cells(line, document.places) for line in document.lines]
    empty = [""] * (len(HEADINGS) - 3)
    rows.append(["Total", "", *empty, _money(document.total, document)])
    if document.notes:
        rows.append(["Due", "", *empty, _money(document.due, document)])
    table = Table(rows, colWidths=WIDTHS, repeatRows=1, hAlign="LEFT")
    closing = len(rows) - (2 if document.notes else 1)
    table.setStyle(
        TableStyle(
            [
                *_TIGHT,
                ("FONT", (0, 0), (-1, -1), SANS, 7.5),
                ("FONT", (0, 0), (-1, 0), BOLD, 7),
                ("FONT", (0, closing), (-1, -1), BOLD, 9),
                ("TEXTCOLOR", (0, 0), (-1, -1), INK),
                ("BACKGROUND", (0, 0), (-1, 0), SHADE),
                ("LINEBELOW", (0, 0), (-1, 0), 0.5, GREY),
                ("LINEABOVE", (0, closing), (-1, closing), 0.5, INK),
                ("ROWBACKGROUNDS", (0, 1), (-1, closing - 1), [colors.white, SHADE]),
                ("ALIGN", (2, 0), (-1, -1), "RIGHT"),
                ("VALIGN", (0, 0), (-1, 0), "BOTTOM"),
                ("TOPPADDING", (0, 0), (-1, -1), 2),
            ]
        )
    )
    return table


def _cells(line: DocumentLine, places: int) -> list[object]:
    model = line.model or NEVER_RAN
    if line.kind == "adjustment":
        model = f"{model}, late from {line.usage_month:%Y-%m}"
    counts = (
        *(line.requests, line.billed_requests, line.prompt_tokens, line.cached_tokens),
        line.completion_tokens,
    )
    return [
        line.lane,
        _text(model),
        *(f"{count:,}" for count in counts),
        f"{line.gpu_seconds:,.2f}",
        f"{line.preempted:,}",
        f"{line.displaced:,}",
        *(f"{money:,.4f}" for money in (line.charge, line.credit, line.surcharge)),
        f"{line.amount:,.{places}f}",
    ]


def _notes(document: BillDocument) -> Table:
    rows = [
        [
            note.label,
            f"{note.issued_at:%Y-%m-%d}",
            _text(note.reason),
            f"-{_money(note.amount, document)}",
        ]
        for note in document.notes
    ]
    table = Table(rows, colWidths=[24 * mm, 24 * mm, 190 * mm, 43 * mm], hAlign="LEFT")
    table.setStyle(
        TableStyle(
            [*_TIGHT, ("FONT", (0, 0), (-1, -1), SANS, 8), ("ALIGN", (3, 0), (3, -1), "RIGHT")]
        )
    )
    return table


def _chart(document: BillDocument) -> Drawing:
    width, height = sum(WIDTHS), 42 * mm
    drawing = Drawing(width, height)
    chart = VerticalBarChart()
    chart.x, chart.y = round(16 * mm), round(6 * mm)
    chart.width, chart.height = round(width - 20 * mm), round(height - 10 * mm)
    chart.data = [[float(amount) for _, amount in document.days]]
    chart.categoryAxis.categoryNames = [str(day.day) for day, _ in document.days]
    chart.valueAxis.valueMin = 0
    chart.bars[0].fillColor = BAR
    chart.bars[0].strokeColor = None
    for axis in (chart.categoryAxis, chart.valueAxis):
        axis.labels.fontName = SANS
        axis.labels.fontSize = 6.5
        axis.labels.fillColor = GREY
        axis.strokeColor = GREY
    drawing.add(chart)
    return drawing


def _money(amount: Decimal, document: BillDocument) -> str:
    return f"{amount:,.{document.places}f} {document.currency}"


def _text(text: str, style: ParagraphStyle = BODY) -> Paragraph:
    """Any text as it stands, in letters that exist."""
    try:
        text.encode(LATIN)
        font = style.fontName
    except UnicodeEncodeError:
        font = CJK
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Paragraph(f'<font name="{font}">{escaped}</font>', style)
