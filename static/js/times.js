// Moments in the reader's own time zone; without this script they stand there in UTC.
const language = document.documentElement.lang || "en";
const FORMATS = {
  date: new Intl.DateTimeFormat(language, { dateStyle: "medium" }),
  moment: new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }),
};

function localise() {
  for (const element of document.querySelectorAll("time[data-local]")) {
    const moment = new Date(element.dateTime);
    element.textContent = FORMATS[element.dataset.local].format(moment);
    element.title = moment.toLocaleString(language, { dateStyle: "full", timeStyle: "long" });
    delete element.dataset.local;
  }
}

localise();
document.addEventListener("htmx:after:swap", localise);
