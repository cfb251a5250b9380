from datetime import UTC, datetime

from django.db import migrations

# Partitioned by hand, which Django has no words for: a month of rows is dropped as a whole. The
# ids are UUIDv7, which begin with the time, so that the primary key can also be the partition's.
PARTITION = """
ALTER TABLE metering_usagerecord RENAME TO metering_usagerecord_old;
ALTER INDEX metering_usagerecord_pkey RENAME TO metering_usagerecord_old_pkey;
CREATE TABLE metering_usagerecord (
    LIKE metering_usagerecord_old INCLUDING DEFAULTS INCLUDING CONSTRAINTS
) PARTITION BY RANGE (id);
ALTER TABLE metering_usagerecord ADD PRIMARY KEY (id);
CREATE TABLE metering_usagerecord_rest PARTITION OF metering_usagerecord DEFAULT;
"""
FILL = """
INSERT INTO metering_usagerecord SELECT * FROM metering_usagerecord_old;
DROP TABLE metering_usagerecord_old;
CREATE INDEX usage_business_received ON metering_usagerecord (business, received_at DESC);
CREATE INDEX usage_received ON metering_usagerecord (received_at DESC);
CREATE INDEX usage_billed_in ON metering_usagerecord (billed_in) WHERE billed_in IS NOT NULL;
"""
MONTHS = """
SELECT DISTINCT date_trunc('month', received_at AT TIME ZONE 'UTC')
FROM metering_usagerecord_old WHERE received_at > '1971-01-01'
"""

ARRIVAL = """
CREATE FUNCTION fairlane_usage_arrives() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    clock metering_billingclock%ROWTYPE;
BEGIN
    IF NEW.price_version IS NULL THEN
        SELECT version INTO NEW.price_version FROM metering_pricebook
        WHERE starts_at <= NEW.received_at ORDER BY starts_at DESC LIMIT 1;
    END IF;
    SELECT * INTO clock FROM metering_billingclock;
    IF NEW.received_at < clock.settled_until THEN
        NEW.billed_in := NULL;
        IF NEW.received_at < clock.closed_until THEN
            NEW.billed_in := clock.open_month;
        END IF;
        INSERT INTO metering_lateusage (at, billed_in) VALUES (NEW.received_at, NEW.billed_in);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER usage_arrives BEFORE INSERT ON metering_usagerecord
    FOR EACH ROW EXECUTE FUNCTION fairlane_usage_arrives();
"""

# Who a person was may be forgotten; nothing else of these rows ever changes.
IMMUTABLE = """
CREATE FUNCTION fairlane_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND to_jsonb(OLD) - '{created_by_id,issued_by_id}'::text[]
            = to_jsonb(NEW) - '{created_by_id,issued_by_id}'::text[] THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is never changed', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER bill_immutable BEFORE UPDATE OR DELETE ON metering_bill
    FOR EACH ROW EXECUTE FUNCTION fairlane_immutable();
CREATE TRIGGER bill_line_immutable BEFORE UPDATE OR DELETE ON metering_billline
    FOR EACH ROW EXECUTE FUNCTION fairlane_immutable();
CREATE TRIGGER credit_note_immutable BEFORE UPDATE OR DELETE ON metering_creditnote
    FOR EACH ROW EXECUTE FUNCTION fairlane_immutable();
CREATE TRIGGER price_immutable BEFORE UPDATE OR DELETE ON metering_modelprice
    FOR EACH ROW EXECUTE FUNCTION fairlane_immutable();
CREATE TRIGGER price_book_immutable BEFORE UPDATE OR DELETE ON metering_pricebook
    FOR EACH ROW EXECUTE FUNCTION fairlane_immutable();
"""

# Looked at when the transaction commits: then a bill has all its lines, and never gets another.
WHOLE = """
CREATE FUNCTION fairlane_bill_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    bill metering_bill%ROWTYPE;
    lines record;
BEGIN
    IF TG_TABLE_NAME = 'metering_bill' THEN
        bill := NEW;
    ELSE
        SELECT * INTO bill FROM metering_bill WHERE id = NEW.bill_id;
    END IF;
    SELECT count(*) AS count, coalesce(sum(rounded), 0) AS total, coalesce(sum(amount), 0) AS exact
    INTO lines FROM metering_billline WHERE bill_id = bill.id;
    IF (lines.count, lines.total, lines.exact)
            IS DISTINCT FROM (bill.lines_count::bigint, bill.total, bill.exact) THEN
        RAISE EXCEPTION 'the lines of bill % are not its total', bill.number
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER bill_whole AFTER INSERT ON metering_bill
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fairlane_bill_whole();
CREATE CONSTRAINT TRIGGER bill_line_whole AFTER INSERT ON metering_billline
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fairlane_bill_whole();
CREATE FUNCTION fairlane_price_book_whole() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM metering_modelprice WHERE book_id = NEW.book_id)
            <> (SELECT prices_count FROM metering_pricebook WHERE version = NEW.book_id) THEN
        RAISE EXCEPTION 'prices % are complete', NEW.book_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER price_book_whole AFTER INSERT ON metering_modelprice
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fairlane_price_book_whole();
CREATE FUNCTION fairlane_credit_within_bill() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT sum(amount) FROM metering_creditnote WHERE bill_id = NEW.bill_id)
            > (SELECT total FROM metering_bill WHERE id = NEW.bill_id) THEN
        RAISE EXCEPTION 'credit notes exceed their bill'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER credit_within_bill AFTER INSERT ON metering_creditnote
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fairlane_credit_within_bill();
"""

# Statements follow late rows until the bills of their month are issued.
CLOSED = """
CREATE FUNCTION fairlane_closed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    held jsonb := to_jsonb(coalesce(NEW, OLD));
    its_month date;
BEGIN
    its_month := date_trunc('month', (held->>TG_ARGV[0])::timestamp)::date;
    IF EXISTS (SELECT 1 FROM metering_monthclose AS closed
               WHERE closed.month = its_month AND billed_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the month % is closed', to_char(its_month, 'YYYY-MM')
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER statement_closed BEFORE INSERT OR UPDATE OR DELETE ON metering_dailystatement
    FOR EACH ROW EXECUTE FUNCTION fairlane_closed('day');
CREATE TRIGGER adjustment_closed BEFORE INSERT OR UPDATE OR DELETE ON metering_adjustment
    FOR EACH ROW EXECUTE FUNCTION fairlane_closed('billed_in');
CREATE TRIGGER bill_closed BEFORE INSERT ON metering_bill
    FOR EACH ROW EXECUTE FUNCTION fairlane_closed('month');
CREATE FUNCTION fairlane_month_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.billed_at IS NULL
            AND to_jsonb(OLD) - 'billed_at' = to_jsonb(NEW) - 'billed_at' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the month % is closed', to_char(OLD.month, 'YYYY-MM')
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER month_once BEFORE UPDATE OR DELETE ON metering_monthclose
    FOR EACH ROW EXECUTE FUNCTION fairlane_month_once();
"""


def edge(month):
    """The least UUIDv7 of a month (UTC)."""
    digits = f"{int(month.timestamp() * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


def after(month):
    return month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)


def partition(apps, schema_editor):
    """A month each for the rows that are there, and for this month and the next."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(PARTITION)
        cursor.execute(MONTHS)
        months = {month.replace(tzinfo=UTC) for (month,) in cursor.fetchall()}
        now = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        for month in sorted(months | {now, after(now)}):
            cursor.execute(
                f"CREATE TABLE metering_usagerecord_{month:%Y%m} PARTITION OF"
                f" metering_usagerecord FOR VALUES FROM ('{edge(month)}')"
                f" TO ('{edge(after(month))}')"
            )
        cursor.execute(FILL)


class Migration(migrations.Migration):
    dependencies = [("metering", "0006_billing_reports")]

    operations = [
        migrations.RunPython(partition),
        *(migrations.RunSQL(rule) for rule in (ARRIVAL, IMMUTABLE, WHOLE, CLOSED)),
    ]
