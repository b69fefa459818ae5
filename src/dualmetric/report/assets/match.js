// The page about a matcher has nothing to draw again when the theme changes.

startTheme(() => {});
document.documentElement.dataset.ready = "yes";
