from django.db import migrations

# Prices that have not begun may be withdrawn as a whole; nothing was priced by them.
WITHDRAWAL = """
CREATE OR REPLACE FUNCTION fairlane_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    book integer;
BEGIN
    IF TG_OP = 'UPDATE' AND to_jsonb(OLD) - '{created_by_id,issued_by_id}'::text[]
            = to_jsonb(NEW) - '{created_by_id,issued_by_id}'::text[] THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME IN ('metering_pricebook', 'metering_modelprice') THEN
        book := coalesce(to_jsonb(OLD)->>'version', to_jsonb(OLD)->>'book_id')::integer;
        IF EXISTS (SELECT 1 FROM metering_pricebook
                   WHERE version = book AND starts_at > clock_timestamp()) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '% is never changed', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE OR REPLACE FUNCTION fairlane_price_book_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    book integer := coalesce(NEW.book_id, OLD.book_id);
BEGIN
    IF (SELECT count(*) FROM metering_modelprice WHERE book_id = book)
            <> (SELECT prices_count FROM metering_pricebook WHERE version = book) THEN
        RAISE EXCEPTION 'prices % are complete', book
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER price_book_whole ON metering_modelprice;
CREATE CONSTRAINT TRIGGER price_book_whole AFTER INSERT OR DELETE ON metering_modelprice
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fairlane_price_book_whole();
"""

# Emptying a table fires no trigger for its rows. Tests that clean up after themselves say so.
TRUNCATE = """
CREATE FUNCTION fairlane_no_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('fairlane.may_truncate', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is never emptied', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
"""
TABLES = ("bill", "billline", "creditnote", "monthclose", "dailystatement", "adjustment")
EACH = """
CREATE TRIGGER {0}_no_truncate BEFORE TRUNCATE ON metering_{0}
    FOR EACH STATEMENT EXECUTE FUNCTION fairlane_no_truncate();
"""


class Migration(migrations.Migration):
    dependencies = [("metering", "0008_billing_news")]

    operations = [
        migrations.RunSQL(WITHDRAWAL),
        migrations.RunSQL(
            TRUNCATE + "".join(EACH.format(table) for table in (*TABLES, "pricebook", "modelprice"))
        ),
    ]
