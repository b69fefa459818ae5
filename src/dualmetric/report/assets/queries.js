// The page about queries: only its table and its theme need a script.

startTheme(() => {});
document.querySelectorAll("table.classes").forEach(startSorting);
document.documentElement.dataset.ready = "yes";
